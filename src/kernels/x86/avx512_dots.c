/* SPDX-License-Identifier: Apache-2.0 */
/* q.k over a row (SPEC section 6, rule 4). Lanes are tokens: a strip of four blocks is one vector of 16, which up to
 * twelve heads share: a whole kv head of the released shape in one pass. */
#include "kernels/x86/avx512.h"

enum { STRIP_BLOCKS = 4, TOKENS = STRIP_BLOCKS * QSA_BLOCK_TOKENS, HEADS = 12, LINE_BYTES = 64, MOST_DIMS = 1024 };

typedef struct strip {
    const void *block[STRIP_BLOCKS];
    const void *next[STRIP_BLOCKS]; /* wanted soon */
} strip;

/* 16 bytes at a byte offset into each of the four blocks, one after the other. */
QSA_INLINE __m512i load_quarters(const strip *s, size_t offset)
{
    const __m128i *b[STRIP_BLOCKS];
    for (int i = 0; i < STRIP_BLOCKS; i++)
        b[i] = (const __m128i *)((const char *)s->block[i] + offset);
    return qsa_join(_mm256_loadu2_m128i(b[1], b[0]), _mm256_loadu2_m128i(b[3], b[2]));
}

/* Dimensions d and d + 1 of the strip. */
QSA_INLINE qsa_wide_pair load_two_rows(const strip *s, size_t d, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_wide_from_bf16(load_quarters(s, d * QSA_BLOCK_TOKENS * sizeof(uint16_t)));
    const size_t row_bytes = QSA_BLOCK_TOKENS * sizeof(float);
    return (qsa_wide_pair){{_mm512_castsi512_ps(load_quarters(s, d * row_bytes)),
                            _mm512_castsi512_ps(load_quarters(s, (d + 1) * row_bytes))}};
}

/* The last dimension of an odd number of them: for bf16, the row before it and this one. */
QSA_INLINE __m512 load_last_row(const strip *s, size_t d, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return load_two_rows(s, d - 1, type).v[1];
    return _mm512_castsi512_ps(load_quarters(s, d * QSA_BLOCK_TOKENS * sizeof(float)));
}

/* q is packed [dim][heads]: one address for all heads, of which there are more than registers for addresses. */
QSA_INLINE void add_products(const float *q, uint32_t heads, size_t d, __m512 keys, __m512 sums[HEADS])
{
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = _mm512_fmadd_ps(_mm512_set1_ps(q[d * heads + h]), keys, sums[h]);
}

/* The strip's dots with `heads` heads: out [heads][TOKENS]. */
QSA_INLINE void dots_strip(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                           float *out)
{
    const size_t row_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    const uint32_t line_rows = LINE_BYTES / row_bytes, even = dim / 2 * 2;
    __m512 sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = _mm512_setzero_ps();

    for (uint32_t line = 0; line < even; line += line_rows) {
        for (int b = 0; b < STRIP_BLOCKS; b++)
            _mm_prefetch((const char *)s->next[b] + line * row_bytes, _MM_HINT_T0);
        const uint32_t end = even - line < line_rows ? even : line + line_rows;
        for (size_t d = line; d < end; d += 2) {
            qsa_wide_pair keys = load_two_rows(s, d, type);
            add_products(q, heads, d, keys.v[0], sums);
            add_products(q, heads, d + 1, keys.v[1], sums);
        }
    }
    if (even < dim)
        add_products(q, heads, even, load_last_row(s, even, type), sums);

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        _mm512_storeu_ps(out + TOKENS * h, sums[h]);
}

static void dots_strip_f32(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out)
{
    QSA_WITH_CONSTANT_ROWS_12(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_F32, out))
}

static void dots_strip_bf16(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out)
{
    QSA_WITH_CONSTANT_ROWS_12(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_BF16, out))
}

static void dots_strip_of(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                          float *out)
{
    if (type == QSA_ELEMENT_BF16)
        dots_strip_bf16(q, heads, dim, s, out);
    else
        dots_strip_f32(q, heads, dim, s, out);
}

/* Blocks b .. b + 4; past the last one, the last again. The ones after them are next. */
static strip strip_at(const void *const *blocks, uint32_t n_blocks, uint32_t b)
{
    strip s;
    for (uint32_t i = 0; i < STRIP_BLOCKS; i++) {
        uint32_t left = n_blocks - b;
        s.block[i] = blocks[b + (i < left ? i : left - 1)];
        s.next[i] = blocks[b + (i + STRIP_BLOCKS < left ? i + STRIP_BLOCKS : left - 1)];
    }
    return s;
}

static inline void store_blocks(float *out, const float *dots, uint32_t blocks)
{
    for (uint32_t b = 0; b < blocks; b++)
        _mm_storeu_ps(out + b * QSA_BLOCK_TOKENS, _mm_loadu_ps(dots + b * QSA_BLOCK_TOKENS));
}

/* All strips, with as many heads as go together. */
static void dots_pass(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                      float *out, size_t out_stride, enum qsa_element type)
{
    float packed[MOST_DIMS * HEADS], sums[HEADS * TOKENS];
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t d = 0; d < dim; d++)
            packed[(size_t)d * heads + h] = q[(size_t)h * dim + d];
    for (uint32_t b = 0; b < n_blocks; b += STRIP_BLOCKS) {
        const strip s = strip_at(blocks, n_blocks, b);
        const uint32_t count = n_blocks - b < STRIP_BLOCKS ? n_blocks - b : STRIP_BLOCKS;
        dots_strip_of(packed, heads, dim, &s, type, sums);
        for (uint32_t h = 0; h < heads; h++)
            store_blocks(out + h * out_stride + (size_t)b * QSA_BLOCK_TOKENS, sums + TOKENS * h, count);
    }
}

static void dots(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks, float *out,
                 size_t out_stride, enum qsa_element type)
{
    for (uint32_t first = 0, count; first < heads; first += count) {
        count = qsa_rows_together(heads - first);
        dots_pass(q + (size_t)first * dim, count, dim, blocks, n_blocks, out + first * out_stride, out_stride, type);
    }
}

void qsa_dots_f32__avx512(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                          float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_f32__avx2(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F32);
}

void qsa_dots_bf16__avx512(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                           float *out, size_t out_stride)
{
    if (dim > MOST_DIMS || dim < 2) /* a load takes two dimensions */
        qsa_dots_bf16__avx2(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_BF16);
}

void qsa_dots_f16__avx512(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                          float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_f16__avx2(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        qsa_dots_widened(qsa_dots_f32__avx512, q, heads, dim, blocks, n_blocks, QSA_ELEMENT_F16, out, out_stride);
}

void qsa_dots_q8_0__avx512(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                           float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_q8_0__avx2(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        qsa_dots_widened(qsa_dots_f32__avx512, q, heads, dim, blocks, n_blocks, QSA_ELEMENT_Q8_0, out, out_stride);
}
