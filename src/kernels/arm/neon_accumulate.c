/* SPDX-License-Identifier: Apache-2.0 */
/* p.v over a row (SPEC section 6, rule 4). Lanes are dimensions: a strip of 16, times up to six heads, 24 accumulators.
 * Tokens are taken in blocks whose V stays in the first cache while all strips and heads pass over it; between blocks
 * the chains wait in `out`, exact there. */
#include "kernels/arm/neon.h"

enum { VECTORS = 4, STRIP = VECTORS * QSA_LANES, HEADS = 6, BLOCK = 32, LINE_BYTES = 64 };

typedef struct problem {
    const float *p; /* [heads][stride] */
    size_t stride;
    const void *const *v; /* [n] -> [dim] */
    uint32_t n, dim;
    const float *sum;
    float *out; /* [heads][out_stride] */
    size_t out_stride;
} problem;

/* The problem from head h on. */
static problem from_head(problem a, uint32_t h)
{
    a.p += h * a.stride;
    a.sum += h;
    a.out += h * a.out_stride;
    return a;
}

/* Tokens begin .. end of the row. */
typedef struct block {
    uint32_t begin, end;
} block;

/* 16 dimensions from d on, and where their chains wait between blocks: [heads][stride]. */
typedef struct strip {
    uint32_t d;
    float *waiting;
    size_t stride;
} strip;

/* Dimensions d .. d + 16 of a V row; d a multiple of 16 in q8_0. */
QSA_INLINE void load_strip(const void *row, uint32_t d, enum qsa_element type, float32x4_t v[VECTORS])
{
    const uint8_t *chunk = (const uint8_t *)row + d / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    float32x4_t scale = vdupq_n_f32(0.0f);
    if (type == QSA_ELEMENT_Q8_0)
        scale = vdupq_n_f32(qsa_f16_to_f32(*(const uint16_t *)(const void *)chunk));
    QSA_UNROLL
    for (int i = 0; i < VECTORS; i++)
        v[i] = type == QSA_ELEMENT_Q8_0
                   ? qsa_four_quants(chunk + sizeof(uint16_t) + d % QSA_CHUNK_DIMS + i * QSA_LANES, scale)
                   : qsa_four_load(row, d + (size_t)i * QSA_LANES, type);
}

/* A block of a strip: takes the chains up, unless it is the first, goes on with them and puts them back. */
QSA_INLINE void strip_block(const problem *a, uint32_t heads, strip s, block b, enum qsa_element type)
{
    float32x4_t sums[HEADS][VECTORS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        QSA_UNROLL
    for (int i = 0; i < VECTORS; i++)
        sums[h][i] = b.begin ? vld1q_f32(s.waiting + h * s.stride + i * QSA_LANES) : vdupq_n_f32(0.0f);

    for (size_t j = b.begin; j < b.end; j++) {
        float32x4_t v[VECTORS];
        load_strip(a->v[j], s.d, type, v);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++)
            QSA_UNROLL
        for (int i = 0; i < VECTORS; i++)
            sums[h][i] = vfmaq_n_f32(sums[h][i], v[i], a->p[h * a->stride + j]);
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        QSA_UNROLL
    for (int i = 0; i < VECTORS; i++)
        vst1q_f32(s.waiting + h * s.stride + i * QSA_LANES, sums[h][i]);
}

static void strip_block_f32(const problem *a, uint32_t heads, strip s, block b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_F32))
}

static void strip_block_bf16(const problem *a, uint32_t heads, strip s, block b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_BF16))
}

static void strip_block_f16(const problem *a, uint32_t heads, strip s, block b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_F16))
}

static void strip_block_q8_0(const problem *a, uint32_t heads, strip s, block b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_Q8_0))
}

static void strip_block_of(const problem *a, uint32_t heads, strip s, block b, enum qsa_element type)
{
    static void (*const of_type[QSA_ELEMENT_COUNT])(const problem *, uint32_t, strip, block) = {
        strip_block_f32, strip_block_bf16, strip_block_f16, strip_block_q8_0};
    of_type[type](a, heads, s, b);
}

/* Scales the sums of a strip, to their place. */
static void finish_strip(const problem *a, uint32_t heads, strip s)
{
    for (uint32_t h = 0; h < heads; h++) {
        const float32x4_t reciprocal = vdupq_n_f32(1.0f / a->sum[h]);
        for (int i = 0; i < STRIP; i += QSA_LANES)
            vst1q_f32(a->out + h * a->out_stride + s.d + i,
                      vaddq_f32(vmulq_f32(vld1q_f32(s.waiting + h * s.stride + i), reciprocal), vdupq_n_f32(0.0f)));
    }
}

/* Asks for the V rows of tokens begin .. end. */
static void prefetch_rows(const problem *a, uint32_t begin, uint32_t end, size_t row_bytes)
{
    for (uint32_t j = begin; j < end && j < a->n; j++)
        for (size_t i = 0; i < row_bytes; i += LINE_BYTES)
            __builtin_prefetch((const char *)a->v[j] + i);
}

/* The whole strips and all heads, block by block. While the strips pass over one block, the next is fetched, a few rows
 * per strip. */
static void whole_strips(const problem *a, uint32_t heads, enum qsa_element type)
{
    const size_t row_bytes = qsa_row_bytes(type, a->dim), passes = qsa_passes(heads, HEADS);
    const uint32_t strips = a->dim / STRIP;
    for (uint32_t begin = 0; begin < a->n; begin += BLOCK) {
        const block b = {begin, a->n - begin < BLOCK ? a->n : begin + BLOCK};
        for (uint32_t i = 0; i < strips; i++) {
            prefetch_rows(a, b.end + BLOCK * i / strips, b.end + BLOCK * (i + 1) / strips, row_bytes);
            for (size_t pass = 0; pass < passes; pass++) {
                uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
                const problem part = from_head(*a, first);
                const strip s = {i * STRIP, part.out + i * STRIP, part.out_stride};
                strip_block_of(&part, last - first, s, b, type);
                if (b.end == a->n)
                    finish_strip(&part, last - first, s);
            }
        }
    }
}

/* The last 16 dimensions, where they are no whole strip: some of them again, with the same result. */
static void last_strip(const problem *a, uint32_t heads, enum qsa_element type)
{
    float waiting[HEADS * STRIP];
    for (uint32_t h = 0; h < heads; h += HEADS) {
        const uint32_t count = heads - h < HEADS ? heads - h : HEADS;
        const problem part = from_head(*a, h);
        const strip s = {a->dim - STRIP, waiting, STRIP};
        strip_block_of(&part, count, s, (block){0, a->n}, type);
        finish_strip(&part, count, s);
    }
}

static void accumulate(problem a, uint32_t heads, enum qsa_element type)
{
    whole_strips(&a, heads, type);
    if (a.dim % STRIP)
        last_strip(&a, heads, type);
}

void qsa_accumulate_f32__neon(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                              uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP)
        qsa_accumulate_f32__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_F32);
}

void qsa_accumulate_bf16__neon(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                               uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP)
        qsa_accumulate_bf16__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_BF16);
}

void qsa_accumulate_f16__neon(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                              uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP)
        qsa_accumulate_f16__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_F16);
}

void qsa_accumulate_q8_0__neon(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                               uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_Q8_0);
}
