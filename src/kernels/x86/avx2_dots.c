/* SPDX-License-Identifier: Apache-2.0 */
/* q.k over a row (SPEC section 6, rule 4). Lanes are tokens: a strip of four blocks makes two vectors of eight, which up
 * to six heads share: twelve accumulators, two vectors of keys and one of q are 15 of the 16 registers. */
#include "kernels/x86/avx2.h"

enum { STRIP_BLOCKS = 4, HEADS = 6 };

typedef struct strip {
    const void *block[STRIP_BLOCKS];
    const void *next[STRIP_BLOCKS]; /* wanted soon */
} strip;

/* Two dimensions of two blocks: out[0] dimension d, out[1] dimension d + 1; tokens of the first block, then of the
 * second. */
QSA_INLINE void load_two_rows(const void *first, const void *second, uint32_t d, enum qsa_element type, __m256 out[2])
{
    qsa_pair rows = qsa_pair_load_two(first, second, (size_t)d * QSA_BLOCK_TOKENS, type);
    if (type == QSA_ELEMENT_F32) /* each vector holds both rows of one block */
        rows = (qsa_pair){
            {_mm256_permute2f128_ps(rows.v[0], rows.v[1], 0x20), _mm256_permute2f128_ps(rows.v[0], rows.v[1], 0x31)}};
    out[0] = rows.v[0];
    out[1] = rows.v[1];
}

/* One dimension of two blocks. */
QSA_INLINE __m256 load_row(const void *first, const void *second, uint32_t d, enum qsa_element type)
{
    size_t i = (size_t)d * QSA_BLOCK_TOKENS;
    if (type == QSA_ELEMENT_F32)
        return _mm256_loadu2_m128((const float *)second + i, (const float *)first + i);
    __m128i both = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)((const uint16_t *)first + i)),
                                      _mm_loadl_epi64((const __m128i *)((const uint16_t *)second + i)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(both), 16));
}

/* One step of all chains: dimension d of `heads` heads with the tokens of two vectors. */
QSA_INLINE void step(const float *q, uint32_t heads, uint32_t dim, uint32_t d, __m256 low, __m256 high,
                     qsa_pair sums[HEADS])
{
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++) {
        __m256 qd = _mm256_broadcast_ss(q + (size_t)h * dim + d);
        sums[h].v[0] = _mm256_fmadd_ps(qd, low, sums[h].v[0]);
        sums[h].v[1] = _mm256_fmadd_ps(qd, high, sums[h].v[1]);
    }
}

/* The strip's dots with `heads` heads; those of its first `blocks` blocks go to out [heads][out_stride]. */
QSA_INLINE void dots_strip(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                           uint32_t blocks, float *out, size_t out_stride)
{
    const size_t row_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    qsa_pair sums[HEADS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h].v[0] = sums[h].v[1] = _mm256_setzero_ps();

    uint32_t d = 0;
    for (; d + 2 <= dim; d += 2) {
        __m256 low[2], high[2];
        load_two_rows(s->block[0], s->block[1], d, type, low);
        load_two_rows(s->block[2], s->block[3], d, type, high);
        _mm_prefetch((const char *)s->next[d / 2 % STRIP_BLOCKS] + d * row_bytes, _MM_HINT_T0);
        step(q, heads, dim, d, low[0], high[0], sums);
        step(q, heads, dim, d + 1, low[1], high[1], sums);
    }
    if (d < dim)
        step(q, heads, dim, d, load_row(s->block[0], s->block[1], d, type), load_row(s->block[2], s->block[3], d, type),
             sums);

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t b = 0; b < blocks; b++) {
            __m256 v = sums[h].v[b / 2];
            __m128 four = b % 2 ? _mm256_extractf128_ps(v, 1) : _mm256_castps256_ps128(v);
            _mm_storeu_ps(out + h * out_stride + b * QSA_BLOCK_TOKENS, four);
        }
}

QSA_INLINE void dots_strip_of(const float *q, uint32_t heads, uint32_t dim, const strip *s, enum qsa_element type,
                              uint32_t blocks, float *out, size_t out_stride)
{
    QSA_WITH_CONSTANT_HEADS(heads, dots_strip(q, HEADS_CONSTANT, dim, s, type, blocks, out, out_stride))
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
    const uint32_t passes = qsa_passes(heads, HEADS);
    for (uint32_t b = 0; b < n_blocks; b += STRIP_BLOCKS) {
        strip s = strip_at(blocks, n_blocks, b);
        uint32_t count = n_blocks - b < STRIP_BLOCKS ? n_blocks - b : STRIP_BLOCKS;
        for (uint32_t pass = 0; pass < passes; pass++) {
            uint32_t first = heads * pass / passes, last = heads * (pass + 1) / passes;
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
