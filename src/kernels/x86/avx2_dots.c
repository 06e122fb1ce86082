/* SPDX-License-Identifier: Apache-2.0 */
/* q.k over a row (SPEC section 6, rule 4). Lanes are tokens: a strip of four blocks makes two vectors of eight, which up
 * to six heads share: twelve accumulators, two vectors of keys and one of q are 15 of the 16 registers. */
#include "kernels/x86/avx2.h"

#include <string.h>

enum { STRIP_BLOCKS = 4, HEADS = 6, LINE_BYTES = 64 };

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

/* The dots of one block, or of two. */
QSA_INLINE void store_blocks(float *out, uint32_t blocks, __m256 dots)
{
    if (blocks >= 2)
        _mm256_storeu_ps(out, dots);
    else
        _mm_storeu_ps(out, _mm256_castps256_ps128(dots));
}

/* The strip's dots with `heads` heads; those of its first `blocks` blocks go to out [heads][out_stride]. */
QSA_INLINE void dots_strip(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                           uint32_t blocks, float *out, size_t out_stride)
{
    const size_t row_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    const uint32_t line_rows = LINE_BYTES / row_bytes;
    qsa_pair sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h].v[0] = sums[h].v[1] = _mm256_setzero_ps();

    for (uint32_t line = 0; line < dim; line += line_rows) {
        for (int b = 0; b < STRIP_BLOCKS; b++)
            _mm_prefetch((const char *)s->next[b] + line * row_bytes, _MM_HINT_T0);
        const uint32_t end = dim - line < line_rows ? dim : line + line_rows;
        for (size_t d = line; d < end; d++) {
            __m256 low = load_row(s->block[0], s->block[1], d, type);
            __m256 high = load_row(s->block[2], s->block[3], d, type);
            QSA_UNROLL
            for (uint32_t h = 0; h < heads; h++) {
                __m256 qd = _mm256_broadcast_ss(q + (size_t)h * dim + d);
                sums[h].v[0] = _mm256_fmadd_ps(qd, low, sums[h].v[0]);
                sums[h].v[1] = _mm256_fmadd_ps(qd, high, sums[h].v[1]);
            }
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        float *to = out + h * out_stride;
        store_blocks(to, blocks, sums[h].v[0]);
        if (blocks > 2)
            store_blocks(to + 2 * QSA_BLOCK_TOKENS, blocks - 2, sums[h].v[1]);
    }
}

QSA_INLINE void dots_strip_of(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                              uint32_t blocks, float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_ROWS(heads, dots_strip(q, ROWS_CONSTANT, dim, s, type, blocks, out, out_stride))
}

/* Blocks b .. b + 4; past the last one, the last again. The ones after them are next. */
static inline strip strip_at(const void *const *blocks, uint32_t n_blocks, uint32_t b)
{
    strip s;
    for (uint32_t i = 0; i < STRIP_BLOCKS; i++) {
        uint32_t left = n_blocks - b;
        s.block[i] = blocks[b + (i < left ? i : left - 1)];
        s.next[i] = blocks[b + (i + STRIP_BLOCKS < left ? i + STRIP_BLOCKS : left - 1)];
    }
    return s;
}

/* Strip by strip, all heads: the later ones find the keys in cache. */
QSA_INLINE void dots(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                     float *out, size_t out_stride, enum qsa_element type)
{
    const size_t passes = qsa_passes(heads, HEADS);
    for (uint32_t b = 0; b < n_blocks; b += STRIP_BLOCKS) {
        strip s = strip_at(blocks, n_blocks, b);
        uint32_t count = n_blocks - b < STRIP_BLOCKS ? n_blocks - b : STRIP_BLOCKS;
        for (size_t pass = 0; pass < passes; pass++) {
            uint32_t first = (uint32_t)(heads * pass / passes), last = (uint32_t)(heads * (pass + 1) / passes);
            dots_strip_of(q + (size_t)first * dim, last - first, dim, &s, type, count,
                          out + first * out_stride + (size_t)b * QSA_BLOCK_TOKENS, out_stride);
        }
    }
}

void qsa_dots_f32__avx2(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                        float *out, size_t out_stride)
{
    dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_F32);
}

void qsa_dots_bf16__avx2(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                         float *out, size_t out_stride)
{
    dots(q, heads, dim, blocks, n_blocks, out, out_stride, QSA_ELEMENT_BF16);
}
