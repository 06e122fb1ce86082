/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: the inner loops, one implementation per instruction set, all with the same bits.
 *
 * The scalar one is the definition (SPEC section 6): every dot product, sum of squares and weighted sum is one chain
 * acc = fma(a_i, b_i, acc) from +0, i ascending. SIMD lanes run across independent outputs, never across one reduction.
 *
 * A kernel takes one call struct and, where K, V or index keys are read, their element type. It allocates nothing and
 * reports nothing: input is finite, the float environment is that of base/float_env.h, and the rest of the contract is
 * asserted in debug builds (contract.h). Pointers to K, V and tiles need the alignment of their element only; output
 * never overlaps input.
 *
 * Layouts are those of device/layout.h. A K block is 4 tokens of one kv head, interleaved: [dim][4]. A tile is the
 * pooled index keys of one page, transposed: [dim][groups]. A V row is one token of one kv head: [dim]. */
#ifndef QSA_KERNELS_KERNELS_H
#define QSA_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QSA_BLOCK_TOKENS = 4 };

/* Types of stored elements. A kernel widens them to f32, exactly. */
enum qsa_element { QSA_ELEMENT_F32 = 0, QSA_ELEMENT_BF16, QSA_ELEMENT_F16, QSA_ELEMENT_Q8_0, QSA_ELEMENT_COUNT };

/* Index keys are of the first so many types. */
enum { QSA_INDEX_ELEMENT_COUNT = QSA_ELEMENT_BF16 + 1 };

/* q8_0: 32 dimensions, a chunk, share an f16 scale. A V row is a sequence of chunks: scale, 32 int8. So is a K block:
 * the scales of the four tokens, then int8 [32][4]. */
enum { QSA_CHUNK_DIMS = 32, QSA_V_CHUNK_BYTES = 34, QSA_K_CHUNK_BYTES = 4 * QSA_V_CHUNK_BYTES };

/* Bytes of the V row of one token and kv head. */
static inline size_t qsa_row_bytes(enum qsa_element type, uint32_t dim)
{
    if (type == QSA_ELEMENT_Q8_0)
        return (size_t)dim / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    return dim * (type == QSA_ELEMENT_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Index scores (SPEC section 4): the sum over heads of max(0, q.k). Tiles are f32 or bf16. */
typedef struct qsa_score_call {
    const float *queries; /* [n_queries][heads][dim] */
    uint32_t n_queries, heads, dim;
    const void *const *tiles; /* [n_tiles] -> [dim][groups] */
    uint32_t n_tiles, groups;
    float *out; /* [n_queries][n_tiles][groups] */
} qsa_score_call;

typedef void qsa_score_fn(const qsa_score_call *call, enum qsa_element type);

/* A group that may be selected. A score is >= +0: its bits order like an unsigned integer. */
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

/* QK^T of query heads that share a kv head, scaled for base 2: x = c q.k, c = log2(e) / sqrt(dim). Lanes of blocks that
 * the caller did not select may hold anything; so may their results. */
typedef struct qsa_qk_call {
    const float *q; /* [heads][dim], already times c */
    uint32_t heads, dim;
    const void *const *blocks; /* [n_blocks] -> [dim][4] */
    uint32_t n_blocks;
    float *out; /* token t of block b: out[h * out_stride + 4 * b + t] */
    size_t out_stride;
} qsa_qk_call;

typedef void qsa_qk_fn(const qsa_qk_call *call, enum qsa_element type);

/* Softmax weights in place, not normalised: p = E2(x - M), M the head's maximum; sum is the chain L of the p. */
typedef struct qsa_softmax_call {
    float *x;      /* token j of head h: x[h * stride + j], j < n; out: p */
    size_t stride; /* at least n; what lies between rows is not touched */
    uint32_t heads, n;
    float *sum; /* out: [heads] */
} qsa_softmax_call;

typedef void qsa_softmax_fn(const qsa_softmax_call *call);

/* PV, normalised: out = A (1 / sum) + 0, A the chain over tokens of p_j v_j. */
typedef struct qsa_pv_call {
    const float *p; /* token j of head h: p[h * stride + j] */
    size_t stride;
    const float *sum; /* [heads] */
    uint32_t heads, dim, n;
    const void *const *v; /* [n] -> [dim] */
    float *out;           /* [heads][dim], head h at out + h * out_stride */
    size_t out_stride;
} qsa_pv_call;

typedef void qsa_pv_fn(const qsa_pv_call *call, enum qsa_element type);

/* RMS norm, then half-split rotation of the first 2 * pairs dimensions (SPEC section 3, steps 2 and 3). */
typedef struct qsa_norm_rotate_call {
    const float *x; /* [heads][dim], head h at x + h * stride */
    size_t stride;
    uint32_t heads, dim;
    const float *weight; /* [dim] */
    float eps;
    bool bf16; /* round as the bf16 profile does; x, cos and sin are rounded already */
    uint32_t pairs;
    const float *cos, *sin; /* [heads][pairs], head h at + h * angle_stride; stride 0: all heads rotate alike */
    size_t angle_stride;
    float *out; /* [heads][dim] */
} qsa_norm_rotate_call;

typedef void qsa_norm_rotate_fn(const qsa_norm_rotate_call *call);

/* Index of the first element that is NaN, infinite or beyond `limit` in magnitude; n if there is none. */
typedef size_t qsa_check_fn(const float *x, size_t n, float limit);

/* Rounds to bf16, to nearest even. */
typedef void qsa_to_bf16_fn(const float *x, size_t n, uint16_t *out);

typedef struct qsa_kernels {
    const char *isa; /* "scalar", "avx2", ... */
    qsa_score_fn *score;
    qsa_offer_fn *offer;
    qsa_keep_fn *keep;
    qsa_qk_fn *qk;
    qsa_softmax_fn *softmax;
    qsa_pv_fn *pv;
    qsa_norm_rotate_fn *norm_rotate;
    qsa_check_fn *check;
    qsa_to_bf16_fn *to_bf16;
} qsa_kernels;

/* The best table that this processor can run; if the environment variable QSA_ISA is set, the one that it names. NULL:
 * that name is unknown, not built, or this processor lacks it. Never a silent fallback. */
const qsa_kernels *qsa_kernels_choose(const char **out_wanted);

/* Table number i of those that were built and run here, scalar first; NULL past the last. For tests and benches. */
const qsa_kernels *qsa_kernels_available(size_t i);

#endif
