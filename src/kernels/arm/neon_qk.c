/* SPDX-License-Identifier: Apache-2.0 */
/* QK^T over the selected tokens (SPEC section 6, rule 4). Lanes are tokens: a block is one vector, and a tile of four
 * blocks shares each number of up to six heads. */
#include "kernels/arm/neon.h"
#include "kernels/simd/qk.h"

typedef struct k_tile {
    const void *block[QK_BLOCKS];
    const void *next[QK_BLOCKS]; /* of the next tile, prefetched */
    uint32_t count;              /* blocks whose scores are stored */
} k_tile;

static k_tile tile_at(const qsa_qk_call *c, uint32_t b)
{
    k_tile k = {.count = c->n_blocks - b < QK_BLOCKS ? c->n_blocks - b : QK_BLOCKS};
    for (uint32_t i = 0; i < QK_BLOCKS; i++) {
        k.block[i] = qk_block(c, b + i);
        k.next[i] = qk_block(c, b + QK_BLOCKS + i);
    }
    return k;
}

/* A tile's scores with `heads` heads: head h at out + h * out_stride. q [heads][dim] */
QSA_INLINE void qk_tile_of(const float *q, uint32_t heads, uint32_t dim, const k_tile *k, enum qsa_element type,
                           float *out, size_t out_stride)
{
    const size_t dim_bytes = QSA_BLOCK_TOKENS * (type == QSA_ELEMENT_F32 ? sizeof(float) : sizeof(uint16_t));
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
            const tile keys = tile_load_parts(k->block, d * QSA_BLOCK_TOKENS, type);
            QSA_UNROLL
            for (uint32_t h = 0; h < heads; h++)
                sums[h] = tile_fma(q[(size_t)h * dim + d], keys, sums[h]);
        }
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        QSA_UNROLL
    for (uint32_t b = 0; b < QK_BLOCKS; b++)
        if (b < k->count)
            vec_store(out + h * out_stride + b * QSA_BLOCK_TOKENS, sums[h].v[b]);
}

static void qk_tile(const qsa_qk_call *c, const k_tile *k, enum qsa_element type, float *out)
{
    QSA_WITH_PLAIN_ELEMENT(
        type, QSA_WITH_ROWS(c->heads, qk_tile_of(c->q, constant_rows, c->dim, k, constant_type, out, c->out_stride)))
}

/* f32, bf16 or f16, tile by tile: the later passes over the heads find the keys in L1. */
static void qk(const qsa_qk_call *c, enum qsa_element type)
{
    for (uint32_t b = 0; b < c->n_blocks; b += QK_BLOCKS) {
        const k_tile k = tile_at(c, b);
        for (uint32_t first = 0, heads; first < c->heads; first += heads) {
            heads = rows_next(c->heads - first);
            const qsa_qk_call some = qk_of_heads(c, first, heads);
            qk_tile(&some, &k, type, some.out + (size_t)b * QSA_BLOCK_TOKENS);
        }
    }
}

/* A K block of q8_0 to f32: out [dim][4]. */
static void widen_block(const void *block, uint32_t dim, enum qsa_element type, float *out)
{
    (void)type;
    const uint8_t *chunk = block;
    for (uint32_t first = 0; first < dim; first += QSA_CHUNK_DIMS, chunk += QSA_K_CHUNK_BYTES) {
        const vec scales = four_from_f16((const uint16_t *)(const void *)chunk);
        const uint8_t *quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
        for (uint32_t d = 0; d < QSA_CHUNK_DIMS; d++)
            vec_store(out + QSA_BLOCK_TOKENS * (size_t)(first + d), four_quants(quants + QSA_BLOCK_TOKENS * d, scales));
    }
}

/* Widening q8_0 costs as much as the products of two heads. */
void qsa_qk__neon(const qsa_qk_call *call, enum qsa_element type)
{
    qsa_expect_qk(call, type);
    if (type == QSA_ELEMENT_Q8_0)
        qk_widened(call, type, widen_block, qk);
    else
        qk(call, type);
}
