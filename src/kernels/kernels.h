/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: the inner loops, one implementation per instruction set, all with the same bits.
 *
 * The scalar one is the definition (SPEC section 6): every dot product, sum of squares and weighted sum is one chain
 * acc = fma(a_i, b_i, acc) from +0, i ascending. Lanes run across independent outputs, never across one reduction.
 * Kernels assume the float environment of base/float_env.h and finite input; they check nothing and allocate nothing.
 * Layouts are those of device/layout.h: a block is 4 tokens of one kv head, dimension-major [dim][4]; a tile is the
 * pooled keys of one page, dimension-major [dim][groups]; V is token-major [dim]. */
#ifndef QSA_KERNELS_H
#define QSA_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QSA_BLOCK_TOKENS = 4 };

/* Element types that a kernel reads, widened exactly to f32. */
enum qsa_element { QSA_ELEMENT_F32 = 0, QSA_ELEMENT_BF16, QSA_ELEMENT_F16, QSA_ELEMENT_Q8_0, QSA_ELEMENT_COUNT };

/* Elements that index keys come in: the first of them. */
enum { QSA_INDEX_ELEMENT_COUNT = QSA_ELEMENT_BF16 + 1 };

/* q8_0: 32 dimensions share a scale d, an f16. A V row is a chunk after the other: d, then 32 int8. A K block: the four
 * tokens' d, then [32][4] int8. */
enum { QSA_CHUNK_DIMS = 32, QSA_V_CHUNK_BYTES = 34, QSA_K_CHUNK_BYTES = 4 * QSA_V_CHUNK_BYTES };

/* Bytes of the V row of one token and kv head. */
static inline size_t qsa_row_bytes(enum qsa_element type, uint32_t dim)
{
    if (type == QSA_ELEMENT_Q8_0)
        return (size_t)dim / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    return dim * (type == QSA_ELEMENT_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Scores (SPEC section 4). queries [n_queries][heads][dim]; tiles [n_tiles] -> [dim][groups];
 * out [n_queries][n_tiles][groups]. */
typedef void qsa_score_fn(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                          const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out);

/* A group that may become a member of a selection. A score is >= +0: its bits order like an unsigned integer. */
typedef struct qsa_candidate {
    uint32_t bits; /* of the score */
    uint32_t group;
} qsa_candidate;

/* Writes those of n scores whose bits exceed tau (-1: all) to out, in order; score i is that of group first + i.
 * Returns how many; out has room for n. */
typedef uint32_t qsa_offer_fn(const float *scores, uint32_t n, uint32_t first, int64_t tau, qsa_candidate *out);

/* Keeps, in place and in order, the candidates above `threshold` and the first `equal` of those that equal it. Returns
 * how many are left. */
typedef uint32_t qsa_keep_fn(qsa_candidate *candidates, uint32_t n, uint32_t threshold, uint32_t equal);

/* x = dot(q', k) of `heads` query heads that share one kv head. q [heads][dim], already times c;
 * blocks [n_blocks] -> [dim][4]; out: head h, token t of block b at out[h * out_stride + 4 * b + t]. Rows of blocks
 * whose lane is not in the caller's row may hold anything, their results too. */
typedef void qsa_dots_fn(const float *q, uint32_t heads, uint32_t dim, const void *const *blocks, uint32_t n_blocks,
                         float *out, size_t out_stride);

/* Softmax weights in place: x[h * stride + j] -> p = E2(x - M), M the head's maximum over j < n; sum[h]: the chain L.
 */
typedef void qsa_weights_fn(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum);

/* out[h * out_stride + d] = (A_d * R) + 0, A_d the chain over tokens j < n of p[h * stride + j] * v_j[d], R = 1 /
 * sum[h]. v [n] -> [dim]. */
typedef void qsa_accumulate_fn(const float *p, size_t stride, uint32_t heads, const void *const *v, uint32_t n,
                               uint32_t dim, const float *sum, float *out, size_t out_stride);

/* RMS norm, then half-split rotation of the first 2 * pairs dimensions, of `heads` vectors (SPEC section 3, steps 2 and
 * 3). x: head h at x + h * stride; weight [dim]; cos, sin [pairs] of head h at + h * angle_stride, 0 if all turn alike;
 * out [heads][dim], may not overlap x.
 * bf16: the roundings of the bf16 profile (input values already rounded by the caller; cos and sin too). */
typedef void qsa_norm_rotate_fn(const float *x, size_t stride, uint32_t heads, uint32_t dim, const float *weight,
                                float eps, uint32_t pairs, const float *cos, const float *sin, size_t angle_stride,
                                bool bf16, float *out);

/* Index of the first element that is NaN, infinite or beyond `limit` in magnitude; n if there is none. */
typedef size_t qsa_check_fn(const float *x, size_t n, float limit);

/* Round to bf16, to nearest even. */
typedef void qsa_to_bf16_fn(const float *x, size_t n, uint16_t *out);

typedef struct qsa_kernels {
    const char *isa; /* "scalar", "avx2", ... */
    qsa_score_fn *score[QSA_INDEX_ELEMENT_COUNT];
    qsa_offer_fn *offer;
    qsa_keep_fn *keep;
    qsa_dots_fn *dots[QSA_ELEMENT_COUNT];
    qsa_weights_fn *weights;
    qsa_accumulate_fn *accumulate[QSA_ELEMENT_COUNT];
    qsa_norm_rotate_fn *norm_rotate;
    qsa_check_fn *check;
    qsa_to_bf16_fn *to_bf16;
} qsa_kernels;

/* The best table that this processor can run; the one that the environment variable QSA_ISA names, if it is set. NULL:
 * that name is unknown, not built, or this processor lacks it. Never a silent fallback. */
const qsa_kernels *qsa_kernels_choose(const char **out_wanted);

/* Table number i of those that were built and run here, scalar first; NULL past the last. For tests and benches. */
const qsa_kernels *qsa_kernels_available(size_t i);

#endif
