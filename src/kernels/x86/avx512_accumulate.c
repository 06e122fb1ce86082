/* SPDX-License-Identifier: Apache-2.0 */
/* p.v over a row (SPEC section 6, rule 4). Lanes are dimensions: a strip of 32, times up to twelve heads. Tokens are
 * taken in blocks that all strips pass over, fetching the next one; between blocks the chains wait in memory, exact
 * there, with their lanes in the order of qsa_wide_load. */
#include "kernels/x86/ahead.h"
#include "kernels/x86/avx512.h"

enum { HALF = 16, STRIP = QSA_AHEAD_DIMS, HEADS = 12, BLOCK = QSA_AHEAD_ROWS, MOST_STRIPS = QSA_AHEAD_MOST };
/* The p of three heads share an address register: more than that need the steps 0, 1 and 2 times the stride, and the
 * twelve addresses of twelve heads are more than there are registers. */
enum { THREE = 3 };

typedef struct problem {
    const float *p; /* [heads][stride] */
    size_t stride;
    const void *const *v; /* [n] -> [dim] */
    uint32_t n, dim;
    const float *sum;
    float *out; /* [heads][out_stride] */
    size_t out_stride;
} problem;

/* Tokens begin .. end of the row, and what is fetched meanwhile. */
typedef struct block {
    uint32_t begin, end;
    qsa_ahead ahead;
} block;

/* 32 dimensions from d on, and where their chains wait between blocks: [HEADS][STRIP]. */
typedef struct strip {
    uint32_t d;
    float *waiting;
} strip;

/* A block of a strip: takes the chains up, unless it is the first, goes on with them and puts them back. */
QSA_INLINE void strip_block(const problem *a, uint32_t heads, const strip *s, const block *b, enum qsa_element type)
{
    __m512 low[HEADS], high[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        low[h] = b->begin ? _mm512_loadu_ps(s->waiting + h * STRIP) : _mm512_setzero_ps();
        high[h] = b->begin ? _mm512_loadu_ps(s->waiting + h * STRIP + HALF) : _mm512_setzero_ps();
    }

    const size_t stride = a->stride, column = qsa_row_bytes(type, s->d);
    const float *p[HEADS / THREE];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h += THREE)
        p[h / THREE] = a->p + h * stride + b->begin;
    const qsa_ahead_column ahead = qsa_ahead_pieces(&b->ahead);
    const void *const *rows = a->v + b->begin;
    for (size_t i = 0; i < b->end - b->begin; i++) {
        const char *row = (const char *)rows[i] + column;
        qsa_wide_pair v = qsa_wide_load(row, 0, type);
        qsa_ahead_fetch(&ahead, i, row, type);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++) {
            __m512 ph = _mm512_set1_ps(p[h / THREE][h % THREE * stride + i]);
            low[h] = _mm512_fmadd_ps(ph, v.v[0], low[h]);
            high[h] = _mm512_fmadd_ps(ph, v.v[1], high[h]);
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        _mm512_storeu_ps(s->waiting + h * STRIP, low[h]);
        _mm512_storeu_ps(s->waiting + h * STRIP + HALF, high[h]);
    }
}

static void strip_block_f32(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS_12(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_F32))
}

static void strip_block_bf16(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS_12(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_BF16))
}

static void strip_block_f16(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS_12(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_F16))
}

static void strip_block_q8_0(const problem *a, uint32_t heads, const strip *s, const block *b)
{
    QSA_WITH_CONSTANT_ROWS_12(heads, strip_block(a, ROWS_CONSTANT, s, b, QSA_ELEMENT_Q8_0))
}

static void strip_block_of(const problem *a, uint32_t heads, const strip *s, const block *b, enum qsa_element type)
{
    static void (*const of_type[QSA_ELEMENT_COUNT])(const problem *, uint32_t, const strip *, const block *) = {
        strip_block_f32, strip_block_bf16, strip_block_f16, strip_block_q8_0};
    of_type[type](a, heads, s, b);
}

/* Scales the sums of a strip, puts them in order and writes them. */
static void finish_strip(const problem *a, uint32_t heads, const strip *s, enum qsa_element type)
{
    const __m512 zero = _mm512_setzero_ps();
    for (uint32_t h = 0; h < heads; h++) {
        const __m512 reciprocal = _mm512_set1_ps(1.0f / a->sum[h]);
        qsa_wide_pair sum = qsa_wide_load(s->waiting + h * STRIP, 0, QSA_ELEMENT_F32);
        sum = qsa_wide_natural_order(sum, type);
        float *out = a->out + h * a->out_stride + s->d;
        _mm512_storeu_ps(out, _mm512_add_ps(_mm512_mul_ps(sum.v[0], reciprocal), zero));
        _mm512_storeu_ps(out + HALF, _mm512_add_ps(_mm512_mul_ps(sum.v[1], reciprocal), zero));
    }
}

/* The strips that begin at first, first + STRIP, ... before end, of as many heads as go together, block by block. */
static void strips(const problem *a, uint32_t heads, uint32_t first, uint32_t end, enum qsa_element type)
{
    const char *pieces[QSA_AHEAD_PIECES * QSA_AHEAD_MOST];
    _Alignas(QSA_AHEAD_LINE_BYTES) float waiting[MOST_STRIPS * HEADS * STRIP];
    for (uint32_t begin = 0; begin < a->n; begin += BLOCK) {
        block b = {begin, a->n - begin < BLOCK ? a->n : begin + BLOCK, {0}};
        b.ahead = qsa_ahead_of(a->v, a->n, b.end, a->dim, type, pieces);
        strip s = {first, waiting};
        for (; s.d < end; s.d += STRIP, s.waiting += HEADS * STRIP, b.ahead.next++) {
            strip_block_of(a, heads, &s, &b, type);
            if (b.end == a->n)
                finish_strip(a, heads, &s, type);
        }
    }
}

static void accumulate(problem a, uint32_t heads, enum qsa_element type)
{
    for (uint32_t count; heads; heads -= count) {
        count = qsa_rows_together(heads);
        strips(&a, count, 0, a.dim - STRIP + 1, type);
        if (a.dim % STRIP) /* the last 32 dimensions, some of them again, with the same result */
            strips(&a, count, a.dim - STRIP, a.dim, type);
        a.p += count * a.stride;
        a.sum += count;
        a.out += count * a.out_stride;
    }
}

void qsa_accumulate_f32__avx512(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP || dim > MOST_STRIPS * STRIP)
        qsa_accumulate_f32__avx2(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_F32);
}

void qsa_accumulate_bf16__avx512(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                 uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP || dim > MOST_STRIPS * STRIP)
        qsa_accumulate_bf16__avx2(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_BF16);
}

void qsa_accumulate_f16__avx512(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP || dim > MOST_STRIPS * STRIP)
        qsa_accumulate_f16__avx2(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_F16);
}

void qsa_accumulate_q8_0__avx512(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                                 uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < STRIP || dim > MOST_STRIPS * STRIP)
        qsa_accumulate_q8_0__avx2(p, stride, heads, v, n, dim, sum, out, out_stride);
    else
        accumulate((problem){p, stride, v, n, dim, sum, out, out_stride}, heads, QSA_ELEMENT_Q8_0);
}
