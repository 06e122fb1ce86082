/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels without strict bits, for comparison only: a library of its own, built with -ffast-math and with contraction,
 * never installed. It holds the product's own sources built that way, and others that the strict rules forbid: sums
 * that are cut in two, softmax in one pass over tiles. All of them for the released shape. */
#ifndef BENCH_STRICT_FREE_H
#define BENCH_STRICT_FREE_H

#include "kernels/kernels.h"

enum { FREE_HEADS = 12, FREE_DIM = 256, FREE_INDEX_HEADS = 4, FREE_INDEX_DIM = 128, FREE_TILE_GROUPS = 16 };

/* Attention of the 12 query heads of one kv head over n tokens in bf16. q, out [FREE_HEADS][FREE_DIM], q times c; n at
 * least 1, blocks [(n + 3) / 4], v [n]. */
typedef void free_row_fn(const float *q, const void *const *blocks, const void *const *v, uint32_t n, float *out);

/* Scores of one query, bf16: q [FREE_INDEX_HEADS][FREE_INDEX_DIM], tiles [n_tiles] ->
 * [FREE_INDEX_DIM][FREE_TILE_GROUPS], n_tiles even, out [n_tiles][FREE_TILE_GROUPS]. */
typedef void free_score_fn(const float *q, const void *const *tiles, uint32_t n_tiles, float *out);

typedef struct free_ways {
    free_row_fn *row;        /* online softmax over tiles of tokens, with partial sums */
    free_score_fn *score;    /* every dot as two sums */
    qsa_weights_fn *weights; /* L as one partial sum per lane */
} free_ways;

#define FREE_API __attribute__((visibility("default")))

FREE_API const free_ways *free_ways_avx2(void);
FREE_API const free_ways *free_ways_avx512(void);

/* The product's sources in this build; otherwise as qsa_kernels_available. */
FREE_API const qsa_kernels *free_kernels_available(size_t i);

#endif
