/* SPDX-License-Identifier: Apache-2.0 */
/* QK^T over the selected tokens (SPEC section 6, rule 4). Lanes are tokens: a tile of four blocks is two vectors of
 * eight, which up to six heads share: twelve accumulators, two vectors of keys and one of q are 15 of 16 registers. */
#include "kernels/simd/qk.h"
#include "kernels/x86/avx2.h"

typedef struct k_tile {
    const void *block[QK_BLOCKS];
    const void *next[QK_BLOCKS]; /* of the next tile, prefetched */
} k_tile;

static k_tile tile_at(const qsa_qk_call *c, uint32_t b)
{
    k_tile k;
    for (uint32_t i = 0; i < QK_BLOCKS; i++) {
        k.block[i] = qk_block(c, b + i);
        k.next[i] = qk_block(c, b + QK_BLOCKS + i);
    }
    return k;
}

/* One dimension of two blocks: the tokens of the first, then those of the second. From bf16 by a broadcast each, which
 * reads no byte too many and, unlike an insertion, leaves the ports of the fma alone. */
QSA_INLINE vec load_dimension(const void *first, const void *second, size_t d, enum qsa_element type)
{
    const size_t i = d * QSA_BLOCK_TOKENS;
    if (type == QSA_ELEMENT_F32)
        return _mm256_loadu2_m128((const float *)second + i, (const float *)first + i);
    int64_t low, high; /* four bf16 each, at any address */
    memcpy(&low, (const uint16_t *)first + i, sizeof low);
    memcpy(&high, (const uint16_t *)second + i, sizeof high);
    return tile_from_bf16(_mm256_blend_epi32(_mm256_set1_epi64x(low), _mm256_set1_epi64x(high), 0xf0)).v[0];
}

/* A tile's scores: out [heads][QK_TOKENS]. q is transposed, [dim][heads]. */
QSA_INLINE void qk_tile_of(const float *q, uint32_t heads, uint32_t dim, const k_tile *k, enum qsa_element type,
                           float *out)
{
    const size_t dim_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_BF16 ? sizeof(uint16_t) : sizeof(float));
    const uint32_t line_dims = (uint32_t)(LINE_BYTES / dim_bytes);
    tile sums[MOST_ROWS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = tile_zero();

    for (uint32_t line = 0; line < dim; line += line_dims) {
        for (int b = 0; b < QK_BLOCKS; b++)
            PREFETCH_L1((const char *)k->next[b] + line * dim_bytes);
        const uint32_t end = dim - line < line_dims ? dim : line + line_dims;
        for (size_t d = line; d < end; d++) {
            const tile keys = {
                {load_dimension(k->block[0], k->block[1], d, type), load_dimension(k->block[2], k->block[3], d, type)}};
            QSA_UNROLL
            for (uint32_t h = 0; h < heads; h++)
                sums[h] = tile_fma(q[d * heads + h], keys, sums[h]);
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        tile_to_f32(out + QK_TOKENS * h, sums[h]);
}

static void qk_tile(const float *q, uint32_t heads, uint32_t dim, const k_tile *k, enum qsa_element type, float *out)
{
    QSA_WITH_INDEX_ELEMENT(type, QSA_WITH_ROWS(heads, qk_tile_of(q, constant_rows, dim, k, constant_type, out)))
}

static inline void store_blocks(float *out, const float *scores, uint32_t blocks)
{
    for (uint32_t b = 0; b < blocks; b++)
        _mm_storeu_ps(out + b * QSA_BLOCK_TOKENS, _mm_loadu_ps(scores + b * QSA_BLOCK_TOKENS));
}

/* At most QSA_HEADS_TOGETHER heads, tile by tile: the later passes over the heads find the keys in L1. */
static void qk_heads(const qsa_qk_call *c, enum qsa_element type)
{
    float q[QSA_MAX_DIM * QSA_HEADS_TOGETHER], scores[MOST_ROWS * QK_TOKENS];
    for (uint32_t first = 0, heads; first < c->heads; first += heads) {
        heads = rows_next(c->heads - first);
        qk_transpose(c->q + (size_t)first * c->dim, heads, c->dim, q + (size_t)first * c->dim);
    }
    for (uint32_t b = 0; b < c->n_blocks; b += QK_BLOCKS) {
        const k_tile k = tile_at(c, b);
        const uint32_t blocks = c->n_blocks - b < QK_BLOCKS ? c->n_blocks - b : QK_BLOCKS;
        for (uint32_t first = 0, heads; first < c->heads; first += heads) {
            heads = rows_next(c->heads - first);
            qk_tile(q + (size_t)first * c->dim, heads, c->dim, &k, type, scores);
            for (uint32_t h = 0; h < heads; h++)
                store_blocks(c->out + (first + h) * c->out_stride + (size_t)b * QSA_BLOCK_TOKENS,
                             scores + QK_TOKENS * h, blocks);
        }
    }
}

/* f32 or bf16. */
static void qk(const qsa_qk_call *c, enum qsa_element type)
{
    for (uint32_t first = 0, heads; first < c->heads; first += heads) {
        heads = (uint32_t)qsa_even_rows(c->heads - first, QSA_HEADS_TOGETHER);
        const qsa_qk_call some = qk_of_heads(c, first, heads);
        qk_heads(&some, type);
    }
}

/* A K block of f16 or q8_0 to f32: out [dim][4]. */
static void widen_block(const void *block, uint32_t dim, enum qsa_element type, float *out)
{
    if (type == QSA_ELEMENT_F16) {
        for (size_t i = 0; i < (size_t)dim * QSA_BLOCK_TOKENS; i += QSA_BLOCK_TOKENS)
            _mm_storeu_ps(out + i, _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)((const uint16_t *)block + i))));
        return;
    }
    const uint8_t *chunk = block;
    for (uint32_t first = 0; first < dim; first += QSA_CHUNK_DIMS, chunk += QSA_K_CHUNK_BYTES) {
        const __m128 four = _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)chunk));
        const vec scales = _mm256_set_m128(four, four);
        const uint8_t *quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
        for (uint32_t d = 0; d < QSA_CHUNK_DIMS; d += 2) /* eight quants are two dimensions of four tokens */
            vec_store(out + QSA_BLOCK_TOKENS * (size_t)(first + d),
                      eight_quants(quants + QSA_BLOCK_TOKENS * d, scales));
    }
}

void qsa_qk__avx2(const qsa_qk_call *call, enum qsa_element type)
{
    qsa_expect_qk(call, type);
    if (type == QSA_ELEMENT_F16 || type == QSA_ELEMENT_Q8_0)
        qk_widened(call, type, widen_block, qk);
    else
        qk(call, type);
}
