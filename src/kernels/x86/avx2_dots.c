/* SPDX-License-Identifier: Apache-2.0 */
/* q.k over a row (SPEC section 6, rule 4). Lanes are tokens: a strip of four blocks makes two vectors of eight, which
 * up to six heads share: twelve accumulators, two vectors of keys and one of q are 15 of the 16 registers. */
#include "kernels/x86/avx2.h"

#include <string.h>

enum {
    STRIP_BLOCKS = 4,
    TOKENS = STRIP_BLOCKS * QSA_BLOCK_TOKENS,
    HEADS = 6,
    TOGETHER = 2 * HEADS,
    MOST_DIMS = 1024,
    LINE_BYTES = 64
};

typedef struct strip {
    const void *block[STRIP_BLOCKS];
    const void *next[STRIP_BLOCKS]; /* wanted soon */
} strip;

/* One dimension of two blocks: the tokens of the first, then those of the second. From bf16 by a broadcast each, which
 * reads no byte too many and, unlike an insertion, leaves the ports of the fma alone. */
QSA_INLINE __m256 load_row(const void *first, const void *second, size_t d, enum qsa_element type)
{
    size_t i = d * QSA_BLOCK_TOKENS;
    if (type == QSA_ELEMENT_F32)
        return _mm256_loadu2_m128((const float *)second + i, (const float *)first + i);
    int64_t low, high; /* four bf16 each, at any address */
    memcpy(&low, (const uint16_t *)first + i, sizeof low);
    memcpy(&high, (const uint16_t *)second + i, sizeof high);
    return qsa_pair_from_bf16(_mm256_blend_epi32(_mm256_set1_epi64x(low), _mm256_set1_epi64x(high), 0xf0)).v[0];
}

/* The strip's dots with `heads` heads: out [heads][TOKENS]. q is packed [dim][heads], so that one register holds its
 * address. */
QSA_INLINE void dots_strip(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                           float *out)
{
    const size_t row_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    const uint32_t line_rows = LINE_BYTES / row_bytes;
    __m256 low_sums[HEADS], high_sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        low_sums[h] = high_sums[h] = _mm256_setzero_ps();

    for (uint32_t line = 0; line < dim; line += line_rows) {
        for (int b = 0; b < STRIP_BLOCKS; b++)
            _mm_prefetch((const char *)s->next[b] + line * row_bytes, _MM_HINT_T0);
        const uint32_t end = dim - line < line_rows ? dim : line + line_rows;
        for (size_t d = line; d < end; d++) {
            __m256 low = load_row(s->block[0], s->block[1], d, type);
            __m256 high = load_row(s->block[2], s->block[3], d, type);
            QSA_UNROLL
            for (uint32_t h = 0; h < heads; h++) {
                __m256 qd = _mm256_broadcast_ss(q + d * heads + h);
                low_sums[h] = _mm256_fmadd_ps(qd, low, low_sums[h]);
                high_sums[h] = _mm256_fmadd_ps(qd, high, high_sums[h]);
            }
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        _mm256_storeu_ps(out + TOKENS * h, low_sums[h]);
        _mm256_storeu_ps(out + TOKENS * h + TOKENS / 2, high_sums[h]);
    }
}

static void dots_strip_f32(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out)
{
    QSA_WITH_CONSTANT_ROWS(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_F32, out))
}

static void dots_strip_bf16(const float *q, uint32_t heads, uint32_t dim, const strip *s, float *out)
{
    QSA_WITH_CONSTANT_ROWS(heads, dots_strip(q, ROWS_CONSTANT, dim, s, QSA_ELEMENT_BF16, out))
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

/* q [heads][dim] to out [dim][heads]. */
static void pack(const float *q, uint32_t heads, uint32_t dim, float *out)
{
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t d = 0; d < dim; d++)
            out[(size_t)d * heads + h] = q[(size_t)h * dim + d];
}

static inline void store_blocks(float *out, const float *dots, uint32_t blocks)
{
    for (uint32_t b = 0; b < blocks; b++)
        _mm_storeu_ps(out + b * QSA_BLOCK_TOKENS, _mm_loadu_ps(dots + b * QSA_BLOCK_TOKENS));
}

/* At most TOGETHER heads, in passes. Strip by strip: the later passes find the keys in cache. */
static void dots_together(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                          float *out, size_t out_stride, enum qsa_element type)
{
    float packed[MOST_DIMS * TOGETHER], sums[HEADS * TOKENS];
    const uint32_t half = heads > HEADS ? (heads + 1) / 2 : heads; /* dealt out evenly: 8 are 4 and 4, not 6 and 2 */
    pack(q, half, dim, packed);
    pack(q + (size_t)half * dim, heads - half, dim, packed + (size_t)half * dim);
    for (uint32_t b = 0; b < n_blocks; b += STRIP_BLOCKS) {
        const strip s = strip_at(blocks, n_blocks, b);
        const uint32_t count = n_blocks - b < STRIP_BLOCKS ? n_blocks - b : STRIP_BLOCKS;
        for (uint32_t first = 0, last = half; first < heads; first = last, last = heads) {
            dots_strip_of(packed + (size_t)first * dim, last - first, dim, &s, type, sums);
            for (uint32_t h = first; h < last; h++)
                store_blocks(out + h * out_stride + (size_t)b * QSA_BLOCK_TOKENS, sums + TOKENS * (h - first), count);
        }
    }
}

static void dots(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks, float *out,
                 size_t out_stride, enum qsa_element type)
{
    const size_t passes = qsa_passes(heads, TOGETHER);
    for (size_t pass = 0; pass < passes; pass++) {
        uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
        dots_together(q + (size_t)first * dim, last - first, dim, blocks, n_blocks, out + first * out_stride,
                      out_stride, type);
    }
}

void qsa_dots_f32__avx2(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                        float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_f32__scalar(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F32);
}

void qsa_dots_bf16__avx2(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                         float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_bf16__scalar(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_BF16);
}

void qsa_dots_f16__avx2(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                        float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_f16__scalar(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        qsa_dots_widened(qsa_dots_f32__avx2, q, heads, dim, blocks, n_blocks, QSA_ELEMENT_F16, out, out_stride);
}

void qsa_dots_q8_0__avx2(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                         float *out, size_t out_stride)
{
    if (dim > MOST_DIMS)
        qsa_dots_q8_0__scalar(q, heads, dim, blocks, n_blocks, out, out_stride);
    else
        qsa_dots_widened(qsa_dots_f32__avx2, q, heads, dim, blocks, n_blocks, QSA_ELEMENT_Q8_0, out, out_stride);
}
