/* SPDX-License-Identifier: Apache-2.0 */
/* QK^T: what the instruction sets share. Lanes are tokens; the loops differ, because each loads four K blocks in its
 * own way. */
#ifndef QSA_KERNELS_SIMD_QK_H
#define QSA_KERNELS_SIMD_QK_H

#include "kernels/contract.h"
#include "kernels/simd/prefetch.h"

/* A tile is four K blocks: 16 tokens. */
enum { QK_BLOCKS = 4, QK_TOKENS = QK_BLOCKS * QSA_BLOCK_TOKENS };

/* Block b; past the last one, the last again. */
static inline const void *qk_block(const qsa_qk_call *c, uint32_t b)
{
    return c->blocks[b < c->n_blocks ? b : c->n_blocks - 1];
}

/* The call for heads [first, first + heads). */
static inline qsa_qk_call qk_of_heads(const qsa_qk_call *c, uint32_t first, uint32_t heads)
{
    qsa_qk_call some = *c;
    some.q += (size_t)first * c->dim;
    some.out += first * c->out_stride;
    some.heads = heads;
    return some;
}

/* q [heads][dim] transposed to [dim][heads]: one address register for all heads. */
static inline void qk_transpose(const float *q, uint32_t heads, uint32_t dim, float *out)
{
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t d = 0; d < dim; d++)
            out[(size_t)d * heads + h] = q[(size_t)h * dim + d];
}

typedef void widen_block_fn(const void *block, uint32_t dim, enum qsa_element type, float *out);

/* For types that are widened once for all heads: a few K blocks at a time become f32 [dim][4], in L1, and qk goes over
 * those. */
static inline void qk_widened(const qsa_qk_call *c, enum qsa_element type, widen_block_fn *widen, qsa_qk_fn *qk)
{
    enum { WIDE_FLOATS = 2 * QSA_MAX_DIM * QSA_BLOCK_TOKENS };
    float wide[WIDE_FLOATS];
    const void *blocks[WIDE_FLOATS / (2 * QSA_BLOCK_TOKENS)]; /* dim is at least 2 */
    const uint32_t block_floats = c->dim * QSA_BLOCK_TOKENS, most = WIDE_FLOATS / block_floats;
    qsa_qk_call some = *c;
    some.blocks = blocks;
    for (uint32_t b = 0; b < c->n_blocks; b += most) {
        some.n_blocks = c->n_blocks - b < most ? c->n_blocks - b : most;
        some.out = c->out + (size_t)b * QSA_BLOCK_TOKENS;
        for (uint32_t i = 0; i < some.n_blocks; i++) {
            blocks[i] = wide + (size_t)i * block_floats;
            widen(c->blocks[b + i], c->dim, type, wide + (size_t)i * block_floats);
        }
        qk(&some, QSA_ELEMENT_F32);
    }
}

#endif
