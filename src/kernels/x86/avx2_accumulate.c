/* SPDX-License-Identifier: Apache-2.0 */
/* p.v over a row (SPEC section 6, rule 4). Lanes are dimensions: a strip of 16, times up to six heads, twelve
 * accumulators. Tokens are taken in blocks that all strips and heads pass over, fetching the next one; between blocks
 * the chains wait in `out`, exact there, with their lanes in the order of qsa_pair_load. */
#include "kernels/x86/ahead.h"

enum { HALF = 8, STRIP = 16, HEADS = 6, BLOCK = QSA_AHEAD_ROWS };

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

/* Tokens begin .. end of the row, and what is fetched meanwhile, if anything. */
typedef struct block {
    uint32_t begin, end;
    bool fetches;
    qsa_ahead ahead;
} block;

/* 16 dimensions from d on, and where their chains wait between blocks: [heads][stride]. */
typedef struct strip {
    uint32_t d;
    float *waiting;
    size_t stride;
} strip;

/* A block of a strip: takes the chains up, unless it is the first, goes on with them and puts them back. */
QSA_INLINE void strip_block(const problem *a, uint32_t heads, const strip *s, const block *b, enum qsa_element type)
{
    __m256 low[HEADS], high[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        low[h] = b->begin ? _mm256_loadu_ps(s->waiting + h * s->stride) : _mm256_setzero_ps();
        high[h] = b->begin ? _mm256_loadu_ps(s->waiting + h * s->stride + HALF) : _mm256_setzero_ps();
    }

    const qsa_ahead_column ahead = b->fetches ? qsa_ahead_pieces(&b->ahead) : (qsa_ahead_column){{NULL}};
    const size_t column = qsa_row_bytes(type, s->d);
    for (size_t j = b->begin; j < b->end; j++) {
        qsa_pair v = qsa_pair_load(a->v[j], s->d, type);
        if (b->fetches)
            qsa_ahead_fetch(&ahead, j - b->begin, (const char *)a->v[j] + column, type);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++) {
            __m256 p = _mm256_broadcast_ss(a->p + h * a->stride + j);
            low[h] = _mm256_fmadd_ps(p, v.v[0], low[h]);
            high[h] = _mm256_fmadd_ps(p, v.v[1], high[h]);
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        _mm256_storeu_ps(s->waiting + h * s->stride, low[h]);
        _mm256_storeu_ps(s->waiting + h * s->stride + HALF, high[h]);
    }
}

static void strip_block_f32(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_F32))
}

static void strip_block_bf16(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_BF16))
}

static void strip_block_f16(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_F16))
}

static void strip_block_q8_0(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_Q8_0))
}

static void strip_block_of(const problem *a, uint32_t heads, const strip *s, const block *b, enum qsa_element type)
{
    static void (*const of_type[QSA_ELEMENT_COUNT])(const problem *, uint32_t, const strip *, const block *) = {
        strip_block_f32, strip_block_bf16, strip_block_f16, strip_block_q8_0};
    of_type[type](a, heads, s, b);
}

QSA_INLINE __m256 scale(__m256 sum, float reciprocal)
{
    return _mm256_add_ps(_mm256_mul_ps(sum, _mm256_set1_ps(reciprocal)), _mm256_setzero_ps());
}

/* Scales the sums of a strip and puts them in order, in their place. */
static void finish_strip(const problem *a, uint32_t heads, const strip *s, enum qsa_element type)
{
    for (uint32_t h = 0; h < heads; h++) {
        const float reciprocal = 1.0f / a->sum[h];
        qsa_pair sum = qsa_natural_order(qsa_pair_load(s->waiting + h * s->stride, 0, QSA_ELEMENT_F32), type);
        float *out = a->out + h * a->out_stride + s->d;
        _mm256_storeu_ps(out, scale(sum.v[0], reciprocal));
        _mm256_storeu_ps(out + HALF, scale(sum.v[1], reciprocal));
    }
}

/* One strip of a block, with all heads. The first pass of every other strip fetches a column of the next block. */
static void block_of_strip(const problem *a, uint32_t heads, uint32_t d, block *b, enum qsa_element type)
{
    const size_t passes = qsa_passes(heads, HEADS);
    for (size_t pass = 0; pass < passes; pass++) {
        const uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
        const problem part = from_head(*a, first);
        const strip s = {d, part.out + d, part.out_stride};
        b->fetches = pass == 0 && d % QSA_AHEAD_DIMS == 0 && d + QSA_AHEAD_DIMS <= a->dim;
        strip_block_of(&part, last - first, &s, b, type);
        if (b->end == a->n)
            finish_strip(&part, last - first, &s, type);
    }
}

/* The whole strips and all heads, block by block. */
static void whole_strips(const problem *a, uint32_t heads, enum qsa_element type)
{
    const char *pieces[QSA_AHEAD_PIECES * QSA_AHEAD_MOST];
    for (uint32_t begin = 0; begin < a->n; begin += BLOCK) {
        block b = {.begin = begin, .end = a->n - begin < BLOCK ? a->n : begin + BLOCK};
        const qsa_ahead ahead = qsa_ahead_of(a->v, a->n, b.end, a->dim, type, pieces);
        for (uint32_t d = 0; d + STRIP <= a->dim; d += STRIP) {
            b.ahead = (qsa_ahead){ahead.next + d / QSA_AHEAD_DIMS, ahead.columns};
            block_of_strip(a, heads, d, &b, type);
        }
    }
}

/* The last 16 dimensions, where they are no whole strip: some of them again, with the same result. */
static void last_strip(const problem *a, uint32_t heads, enum qsa_element type)
{
    float waiting[HEADS * STRIP];
    const block all = {.begin = 0, .end = a->n};
    for (uint32_t h = 0; h < heads; h += HEADS) {
        const uint32_t count = heads - h < HEADS ? heads - h : HEADS;
        const problem part = from_head(*a, h);
        const strip s = {a->dim - STRIP, waiting, STRIP};
        strip_block_of(&part, count, &s, &all, type);
        finish_strip(&part, count, &s, type);
    }
}

static void accumulate(const problem *a, uint32_t heads, enum qsa_element type)
{
    whole_strips(a, heads, type);
    if (a->dim % STRIP)
        last_strip(a, heads, type);
}

void qsa_accumulate_f32__avx2(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                              uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    const problem a = {p, stride, v, n, dim, sum, out, out_stride};
    if (dim < STRIP || dim > QSA_AHEAD_MOST * QSA_AHEAD_DIMS)
        qsa_accumulate_f32__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate(&a, heads, QSA_ELEMENT_F32);
}

void qsa_accumulate_bf16__avx2(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                               uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    const problem a = {p, stride, v, n, dim, sum, out, out_stride};
    if (dim < STRIP || dim > QSA_AHEAD_MOST * QSA_AHEAD_DIMS)
        qsa_accumulate_bf16__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate(&a, heads, QSA_ELEMENT_BF16);
}

void qsa_accumulate_f16__avx2(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                              uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    const problem a = {p, stride, v, n, dim, sum, out, out_stride};
    if (dim < STRIP || dim > QSA_AHEAD_MOST * QSA_AHEAD_DIMS)
        qsa_accumulate_f16__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate(&a, heads, QSA_ELEMENT_F16);
}

void qsa_accumulate_q8_0__avx2(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                               uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    const problem a = {p, stride, v, n, dim, sum, out, out_stride};
    if (dim < STRIP || dim > QSA_AHEAD_MOST * QSA_AHEAD_DIMS)
        qsa_accumulate_q8_0__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate(&a, heads, QSA_ELEMENT_Q8_0);
}
