/* SPDX-License-Identifier: Apache-2.0 */
/* q.k over a row (SPEC section 6, rule 4). Lanes are tokens: a strip of four blocks is one vector of 16, which up to
 * twelve heads share: a whole kv head of the released shape in one pass. */
#include "kernels/x86/avx512.h"

#include <string.h>

enum { STRIP_BLOCKS = 4, TOKENS = STRIP_BLOCKS * QSA_BLOCK_TOKENS, HEADS = 12, LINE_BYTES = 64, MOST_DIMS = 1024 };
/* While a set of strips is worked on, the blocks of the next set are fetched side by side: eight pieces of memory at a
 * time come faster than four. */
enum { SET_STRIPS = 2, SET_BLOCKS = SET_STRIPS * STRIP_BLOCKS };

typedef struct strip {
    const void *block[STRIP_BLOCKS];
    const char *const *next; /* [SET_BLOCKS] */
    uint32_t number;         /* in its set */
} strip;

QSA_INLINE __m128i load_quarter(const void *block, size_t offset)
{
    return _mm_loadu_si128((const __m128i *)((const char *)block + offset));
}

/* 16 bytes at a byte offset into each of the four blocks, one after the other. */
QSA_INLINE __m512i load_quarters(const strip *s, size_t offset)
{
    __m256i low = _mm256_castsi128_si256(load_quarter(s->block[0], offset));
    __m256i high = _mm256_castsi128_si256(load_quarter(s->block[2], offset));
    return qsa_join(_mm256_inserti128_si256(low, load_quarter(s->block[1], offset), 1),
                    _mm256_inserti128_si256(high, load_quarter(s->block[3], offset), 1));
}

QSA_INLINE __m512i load_two_halves(const void *block, const void *next_block, size_t offset)
{
    return qsa_join(_mm256_loadu_si256((const __m256i *)((const char *)block + offset)),
                    _mm256_loadu_si256((const __m256i *)((const char *)next_block + offset)));
}

/* load_quarters at offset and at offset + 16, in fewer steps than two of them. */
QSA_INLINE void load_quarters_twice(const strip *s, size_t offset, __m512i quarters[2])
{
    const __m512i low = load_two_halves(s->block[0], s->block[1], offset);
    const __m512i high = load_two_halves(s->block[2], s->block[3], offset);
    quarters[0] = _mm512_shuffle_i64x2(low, high, 0x88);
    quarters[1] = _mm512_shuffle_i64x2(low, high, 0xdd);
}

/* Two dimensions of two bytes each, from load_quarters. */
QSA_INLINE qsa_wide_pair widen_two_rows(__m512i quarters, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_wide_from_bf16(quarters);
    /* a row of the four blocks after the other, then widened */
    const __m512i halves = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), quarters);
    return (qsa_wide_pair){
        {_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1))}};
}

/* Dimension d alone. Of two bytes a load takes two: with the dimension before it, or after the first. */
QSA_INLINE __m512 load_row(const strip *s, size_t d, enum qsa_element type)
{
    if (type == QSA_ELEMENT_F32)
        return _mm512_castsi512_ps(load_quarters(s, d * QSA_BLOCK_TOKENS * sizeof(float)));
    const size_t first = d > 0 ? d - 1 : 0;
    return widen_two_rows(load_quarters(s, first * QSA_BLOCK_TOKENS * sizeof(uint16_t)), type).v[d > 0];
}

/* q is packed [dim][heads]: one address for all heads, of which there are more than registers for addresses. */
QSA_INLINE void add_products(const float *q, uint32_t heads, size_t d, __m512 keys, __m512 sums[HEADS])
{
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = _mm512_fmadd_ps(_mm512_set1_ps(q[d * heads + h]), keys, sums[h]);
}

/* Half a line of each block: two dimensions of f32, four of others. */
QSA_INLINE void add_half_line(const float *q, uint32_t heads, size_t d, const strip *s, enum qsa_element type,
                              __m512 sums[HEADS])
{
    __m512i quarters[2];
    if (type == QSA_ELEMENT_F32) {
        load_quarters_twice(s, d * QSA_BLOCK_TOKENS * sizeof(float), quarters);
        add_products(q, heads, d, _mm512_castsi512_ps(quarters[0]), sums);
        add_products(q, heads, d + 1, _mm512_castsi512_ps(quarters[1]), sums);
        return;
    }
    load_quarters_twice(s, d * QSA_BLOCK_TOKENS * sizeof(uint16_t), quarters);
    QSA_UNROLL
    for (size_t i = 0; i < 2; i++) {
        const qsa_wide_pair keys = widen_two_rows(quarters[i], type);
        add_products(q, heads, d + 2 * i, keys.v[0], sums);
        add_products(q, heads, d + 2 * i + 1, keys.v[1], sums);
    }
}

/* A line of each of four blocks. */
QSA_INLINE void fetch_lines(const char *const *blocks, size_t offset)
{
    QSA_UNROLL
    for (int b = 0; b < STRIP_BLOCKS; b++)
        _mm_prefetch(blocks[b] + offset, _MM_HINT_T0);
}

/* The strip's dots with `heads` heads: head h at out + h * out_stride. */
QSA_INLINE void dots_strip(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                           float *out, size_t out_stride)
{
    const size_t row_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_F32 ? sizeof(float) : sizeof(uint16_t));
    const size_t line_rows = LINE_BYTES / row_bytes;
    __m512 sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = _mm512_setzero_ps();

    /* Every line of the strip takes one of four of the next blocks, of which it has a half to fetch. */
    size_t d = 0, fetched = s->number * (dim / line_rows / SET_STRIPS * LINE_BYTES);
    for (; d + 2 * line_rows <= dim; d += 2 * line_rows, fetched += LINE_BYTES) {
        fetch_lines(s->next, fetched);
        add_half_line(q, heads, d, s, type, sums);
        add_half_line(q, heads, d + line_rows / 2, s, type, sums);
        fetch_lines(s->next + STRIP_BLOCKS, fetched);
        add_half_line(q, heads, d + line_rows, s, type, sums);
        add_half_line(q, heads, d + line_rows + line_rows / 2, s, type, sums);
    }
    for (; d < dim; d++)
        add_products(q, heads, d, load_row(s, d, type), sums);

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        _mm512_storeu_ps(out + h * out_stride, sums[h]);
}

/* Four dimensions of a chunk of q8_0, from load_quarters. */
QSA_INLINE void add_four_quants(const float *q, uint32_t heads, size_t d, __m512i quarters, __m512 scales,
                                __m512 sums[HEADS])
{
    const __m512i transposed = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i quants = _mm512_permutexvar_epi32(transposed, quarters);
    const __m128i of_dim[4] = {_mm512_castsi512_si128(quants), _mm512_extracti32x4_epi32(quants, 1),
                               _mm512_extracti32x4_epi32(quants, 2), _mm512_extracti32x4_epi32(quants, 3)};
    QSA_UNROLL
    for (size_t i = 0; i < 4; i++)
        add_products(q, heads, d + i, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(of_dim[i])), scales), sums);
}

/* The scales of 16 tokens, from a byte offset on. */
QSA_INLINE __m512 load_scales(const strip *s, size_t offset)
{
    __m128i eight[STRIP_BLOCKS];
    QSA_UNROLL
    for (int b = 0; b < STRIP_BLOCKS; b++)
        eight[b] = _mm_loadl_epi64((const __m128i *)(const void *)((const char *)s->block[b] + offset));
    return _mm512_cvtph_ps(
        _mm256_set_m128i(_mm_unpacklo_epi64(eight[2], eight[3]), _mm_unpacklo_epi64(eight[0], eight[1])));
}

/* dots_strip of q8_0: a chunk of 32 dimensions has its scales in front. */
QSA_INLINE void dots_strip_chunks(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out,
                                  size_t out_stride)
{
    __m512 sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = _mm512_setzero_ps();
    for (size_t d = 0, chunk = 0; d < dim; d += QSA_CHUNK_DIMS, chunk += QSA_K_CHUNK_BYTES) {
        for (size_t line = 0; line < QSA_K_CHUNK_BYTES; line += LINE_BYTES)
            fetch_lines(s->next + s->number * STRIP_BLOCKS, chunk + line);
        const __m512 scales = load_scales(s, chunk);
        const size_t quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
        for (size_t i = 0; i < QSA_CHUNK_DIMS; i += 8) {
            __m512i quarters[2];
            load_quarters_twice(s, quants + i * QSA_BLOCK_TOKENS, quarters);
            add_four_quants(q, heads, d + i, quarters[0], scales, sums);
            add_four_quants(q, heads, d + i + 4, quarters[1], scales, sums);
        }
    }
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        _mm512_storeu_ps(out + h * out_stride, sums[h]);
}

/* Past the last block, the last again. */
QSA_INLINE const void *block_at(const void *const *blocks, uint32_t n_blocks, uint32_t b)
{
    return blocks[b < n_blocks ? b : n_blocks - 1];
}

/* All strips; the last may have fewer blocks, but writes all its dots. */
QSA_INLINE void dots_strips(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                            float *out, size_t out_stride, enum qsa_element type)
{
    const char *next[SET_BLOCKS] = {NULL};
    for (uint32_t b = 0; b < n_blocks; b += STRIP_BLOCKS, out += TOKENS) {
        strip s = {.next = next, .number = b / STRIP_BLOCKS % SET_STRIPS};
        for (uint32_t i = 0; i < STRIP_BLOCKS; i++)
            s.block[i] = block_at(blocks, n_blocks, b + i);
        for (uint32_t i = 0; s.number == 0 && i < SET_BLOCKS; i++)
            next[i] = block_at(blocks, n_blocks, b + SET_BLOCKS + i);
        if (type == QSA_ELEMENT_Q8_0)
            dots_strip_chunks(q, heads, dim, &s, out, out_stride);
        else
            dots_strip(q, heads, dim, &s, type, out, out_stride);
    }
}

typedef void dots_strips_fn(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                            float *out, size_t out_stride);

static void dots_strips_f32(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                            float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS_12(heads,
                              dots_strips(q, ROWS_CONSTANT, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F32))
}

static void dots_strips_bf16(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                             float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS_12(heads,
                              dots_strips(q, ROWS_CONSTANT, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_BF16))
}

static void dots_strips_f16(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                            float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS_12(heads,
                              dots_strips(q, ROWS_CONSTANT, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F16))
}

static void dots_strips_q8_0(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                             float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS_12(heads,
                              dots_strips(q, ROWS_CONSTANT, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_Q8_0))
}

/* The first set, which nothing before it has asked for. */
static void fetch_first(const void *const *blocks, uint32_t n_blocks, size_t block_bytes)
{
    for (uint32_t b = 0; b < n_blocks && b < SET_BLOCKS; b++)
        for (size_t at = 0; at < block_bytes; at += LINE_BYTES)
            _mm_prefetch((const char *)blocks[b] + at, _MM_HINT_T0);
}

/* With as many heads as go together. */
static void dots_pass(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                      float *out, size_t out_stride, dots_strips_fn *of_type)
{
    float packed[MOST_DIMS * HEADS], rest[HEADS * TOKENS];
    for (uint32_t d = 0; d < dim; d++)
        for (uint32_t h = 0; h < heads; h++)
            packed[(size_t)d * heads + h] = q[(size_t)h * dim + d];
    const uint32_t left = n_blocks % STRIP_BLOCKS, whole = n_blocks - left;
    of_type(packed, heads, dim, blocks, whole, out, out_stride);
    if (left == 0)
        return;
    of_type(packed, heads, dim, blocks + whole, left, rest, TOKENS);
    out += (size_t)whole * QSA_BLOCK_TOKENS;
    for (uint32_t h = 0; h < heads; h++)
        memcpy(out + h * out_stride, rest + TOKENS * h, left * QSA_BLOCK_TOKENS * sizeof *out);
}

static void dots(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks, float *out,
                 size_t out_stride, enum qsa_element type)
{
    static dots_strips_fn *const of_type[QSA_ELEMENT_COUNT] = {dots_strips_f32, dots_strips_bf16, dots_strips_f16,
                                                               dots_strips_q8_0};
    fetch_first(blocks, n_blocks, QSA_BLOCK_TOKENS * qsa_row_bytes(type, dim));
    for (uint32_t first = 0, count; first < heads; first += count) {
        count = qsa_rows_together(heads - first);
        dots_pass(q + (size_t)first * dim, count, dim, blocks, n_blocks, out + first * out_stride, out_stride,
                  of_type[type]);
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
    if (dim > MOST_DIMS || dim < 2)
        qsa_dots_f16__avx2(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F16);
}

void qsa_dots_q8_0__avx512(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                           float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_q8_0__avx2(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_Q8_0);
}
