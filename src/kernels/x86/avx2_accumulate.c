/* SPDX-License-Identifier: Apache-2.0 */
/* p.v over a row (SPEC section 6, rule 4). Lanes are dimensions: a strip of 16, times up to six heads, twelve
 * accumulators. Tokens are taken in blocks whose V stays in the first cache while all strips and heads pass over it;
 * between blocks the chains wait in `out`, exact there, with their lanes in the order of qsa_pair_load. */
#include "kernels/x86/avx2.h"

enum { STRIP = 16, HEADS = 6, BLOCK = 32, LINE_BYTES = 64 };

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
static inline problem from_head(problem a, uint32_t h)
{
    a.p += h * a.stride;
    a.sum += h;
    a.out += h * a.out_stride;
    return a;
}

QSA_INLINE __m256 finish(__m256 a, __m256 reciprocal)
{
    return _mm256_add_ps(_mm256_mul_ps(a, reciprocal), _mm256_setzero_ps());
}

QSA_INLINE __m256 reciprocal(float sum)
{
    return _mm256_set1_ps(1.0f / sum);
}

/* Tokens begin .. end of the strip at dimension d: takes the chains up, unless begin is 0, and finishes them if end is
 * n. */
QSA_INLINE void strip_block(const problem *a, uint32_t heads, uint32_t d, uint32_t begin, uint32_t end,
                            enum qsa_element type)
{
    qsa_pair sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = begin ? qsa_pair_load(a->out + h * a->out_stride, d, QSA_ELEMENT_F32)
                        : (qsa_pair){{_mm256_setzero_ps(), _mm256_setzero_ps()}};

    for (uint32_t j = begin; j < end; j++) {
        qsa_pair v = qsa_pair_load(a->v[j], d, type);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++) {
            __m256 p = _mm256_broadcast_ss(a->p + h * a->stride + j);
            sums[h].v[0] = _mm256_fmadd_ps(p, v.v[0], sums[h].v[0]);
            sums[h].v[1] = _mm256_fmadd_ps(p, v.v[1], sums[h].v[1]);
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        if (end == a->n) {
            __m256 r = reciprocal(a->sum[h]);
            sums[h] = qsa_natural_order(sums[h], type);
            sums[h] = (qsa_pair){{finish(sums[h].v[0], r), finish(sums[h].v[1], r)}};
        }
        _mm256_storeu_ps(a->out + h * a->out_stride + d, sums[h].v[0]);
        _mm256_storeu_ps(a->out + h * a->out_stride + d + 8, sums[h].v[1]);
    }
}

/* All tokens of eight dimensions, finished. */
QSA_INLINE void eight_dims(const problem *a, uint32_t heads, uint32_t d, enum qsa_element type)
{
    __m256 sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = _mm256_setzero_ps();
    for (uint32_t j = 0; j < a->n; j++) {
        __m256 v = qsa_eight_load(a->v[j], d, type);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++)
            sums[h] = _mm256_fmadd_ps(_mm256_broadcast_ss(a->p + h * a->stride + j), v, sums[h]);
    }
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        _mm256_storeu_ps(a->out + h * a->out_stride + d, finish(sums[h], reciprocal(a->sum[h])));
}

QSA_INLINE void strip_block_of(const problem *a, uint32_t heads, uint32_t d, uint32_t begin, uint32_t end,
                               enum qsa_element type){
    QSA_WITH_CONSTANT_ROWS(heads, strip_block(a, ROWS_CONSTANT, d, begin, end, type))}

QSA_INLINE void eight_dims_of(const problem *a, uint32_t heads, uint32_t d, enum qsa_element type)
{
    QSA_WITH_CONSTANT_ROWS(heads, eight_dims(a, ROWS_CONSTANT, d, type))
}

/* Asks for the V rows of tokens begin .. end. */
static inline void prefetch_rows(const problem *a, uint32_t begin, uint32_t end, size_t row_bytes)
{
    for (uint32_t j = begin; j < end && j < a->n; j++)
        for (size_t i = 0; i < row_bytes; i += LINE_BYTES)
            _mm_prefetch((const char *)a->v[j] + i, _MM_HINT_T0);
}

/* All strips and heads over one block of tokens; meanwhile the next block is fetched, a few rows per strip. */
QSA_INLINE void block(const problem *a, uint32_t heads, uint32_t begin, enum qsa_element type)
{
    const size_t row_bytes = a->dim * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    const uint32_t end = a->n - begin < BLOCK ? a->n : begin + BLOCK;
    const uint32_t strips = a->dim / STRIP;
    const size_t passes = qsa_passes(heads, HEADS);
    for (uint32_t s = 0; s < strips; s++) {
        prefetch_rows(a, end + BLOCK * s / strips, end + BLOCK * (s + 1) / strips, row_bytes);
        for (size_t pass = 0; pass < passes; pass++) {
            uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
            problem part = from_head(*a, first);
            strip_block_of(&part, last - first, s * STRIP, begin, end, type);
        }
    }
}

/* The dimensions past the last whole strip, eight at a time; the last eight may overlap what is done, and do it again
 * with the same result. */
QSA_INLINE void last_dims(const problem *a, uint32_t heads, enum qsa_element type)
{
    const size_t passes = qsa_passes(heads, HEADS);
    for (uint32_t d = a->dim / STRIP * STRIP; d < a->dim; d += 8)
        for (size_t pass = 0; pass < passes; pass++) {
            uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
            problem part = from_head(*a, first);
            eight_dims_of(&part, last - first, d + 8 <= a->dim ? d : a->dim - 8, type);
        }
}

QSA_INLINE void accumulate(const problem *a, uint32_t heads, enum qsa_element type)
{
    for (uint32_t begin = 0; begin < a->n; begin += BLOCK)
        block(a, heads, begin, type);
    last_dims(a, heads, type);
}

void qsa_accumulate_f32__avx2(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                              uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < 8) { /* less than one vector */
        qsa_accumulate_f32__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
        return;
    }
    problem a = {p, stride, v, n, dim, sum, out, out_stride};
    accumulate(&a, heads, QSA_ELEMENT_F32);
}

void qsa_accumulate_bf16__avx2(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                               uint32_t dim, const float *sum, float *out, size_t out_stride)
{
    if (dim < 8) {
        qsa_accumulate_bf16__scalar(p, stride, heads, v, n, dim, sum, out, out_stride);
        return;
    }
    problem a = {p, stride, v, n, dim, sum, out, out_stride};
    accumulate(&a, heads, QSA_ELEMENT_BF16);
}
