/* SPDX-License-Identifier: Apache-2.0 */
/* Everything in a forward pass besides matrix products and QSA: one implementation per instruction set, all with the
 * same bits. scalar.c is the definition; SPEC section 9 says it in words.
 *
 * Rules that hold for every operation:
 * - It computes the units [units.begin, units.end) of arrays that are given from their beginning. What a unit is, its
 *   type says. Any split of the units, over calls or over threads, gives the same bits; units may run at the same time.
 * - All numbers are f32, all arrays row-major with the last dimension contiguous; no alignment is needed. Strides are
 *   in floats.
 * - Input and output may not overlap unless the operation is said to work in place.
 * - Nothing is checked and nothing is allocated. NaN and infinities stay visible: they never turn into finite numbers
 *   of an output that depends on them, except a sigmoid or e^x of an infinity, which has a limit.
 * - It assumes the float environment of base/float_env.h: the threads that call it have entered it. */
#ifndef QSA_OPS_H
#define QSA_OPS_H

#include <stddef.h>
#include <stdint.h>

/* Half-open. */
typedef struct ops_range {
    size_t begin, end;
} ops_range;

/* ---- hyper-connections ---- */

/* out = (x * u) * weight, u = 1 / sqrt(sum of squares / dim + eps). Unit: a row. Row r takes row r mod weight_rows of
 * the weights: of a token's streams each has its own. In place is allowed. */
typedef struct ops_norm {
    const float *x;      /* [rows][dim] */
    const float *weight; /* [weight_rows][dim] */
    size_t dim, weight_rows;
    float eps;
    float *out; /* [rows][dim] */
} ops_norm;
typedef void ops_norm_fn(const ops_norm *op, ops_range rows);

/* x = silu(x * c), c = 1 / streams, in place: the low rank between D and U. Unit: an element. */
typedef struct ops_squash {
    float *x;
    size_t streams;
} ops_squash;
typedef void ops_squash_fn(const ops_squash *op, ops_range elements);

/* Columns of one unit of those operations whose unit is a piece of a row. */
enum { OPS_PIECE = 256 };

/* Pieces of a row of `dim` columns: units of a token. */
static inline size_t ops_pieces(size_t dim)
{
    return (dim + OPS_PIECE - 1) / OPS_PIECE;
}

/* out = (sum over streams of sigmoid(u) * n) * c, c = 1 / streams. Unit: a piece of a token's row, token *
 * ops_pieces(dim) + piece. */
typedef struct ops_mix {
    const float *u, *n; /* [tokens][streams][dim] */
    size_t dim, streams;
    float *out; /* [tokens][dim] */
} ops_mix;
typedef void ops_mix_fn(const ops_mix *op, ops_range pieces);

/* residual += 2 sigmoid(gain * c) * y, c = 1 / streams, in place. Unit: a stream of a token, token * streams + stream.
 */
typedef struct ops_residual {
    const float *y;     /* [tokens][dim] */
    const float *gain;  /* [tokens] rows of [streams]: J n */
    size_t gain_stride; /* from token to token */
    size_t dim, streams;
    float *residual; /* [tokens][streams][dim] */
} ops_residual;
typedef void ops_residual_fn(const ops_residual *op, ops_range rows);

/* ---- convolution ---- */

enum { OPS_MOST_TAPS = 64 };

/* out = silu of the causal depthwise convolution of x along the tokens of one sequence: tap k of token t multiplies
 * token t - (taps - 1 - k) * dilation. The tokens before the first are `tail`, oldest first. Unit: a channel. */
typedef struct ops_conv {
    const float *x;      /* [tokens] rows of [channels] */
    const float *tail;   /* [(taps - 1) * dilation][channels] */
    const float *weight; /* [taps][channels] */
    size_t x_stride, tokens, channels, taps, dilation;
    float *out; /* [tokens][channels] */
} ops_conv;
typedef void ops_conv_fn(const ops_conv *op, ops_range channels);

/* The tail after these tokens; same shape as op->tail, which it may not overlap. Unit: a channel. */
void ops_conv_tail(const ops_conv *op, ops_range channels, float *out_tail);

/* ---- gated delta net ---- */

/* q and k to unit length, q then times 1 / sqrt(dim), in place; kq = their product. Unit: a key head of a token,
 * token * key_heads + head. */
typedef struct ops_unit {
    float *q, *k;  /* [tokens] rows of [key_heads][dim] */
    size_t stride; /* from token to token, of q and of k */
    size_t key_heads, dim;
    float *kq; /* [tokens][key_heads] */
} ops_unit;
typedef void ops_unit_fn(const ops_unit *op, ops_range heads);

/* decay = e^(a * softplus(alpha + dt)), beta = sigmoid(beta), in place. Unit: a token. */
typedef struct ops_gates {
    const float *a, *dt; /* [heads] */
    size_t heads;
    float *decay; /* [tokens][heads]; before: alpha, the product */
    float *beta;  /* [tokens][heads] */
} ops_gates;
typedef void ops_gates_fn(const ops_gates *op, ops_range tokens);

/* Columns of a head's state that lie together. */
enum { OPS_STATE_COLUMNS = 32 };

static inline size_t ops_state_blocks(size_t dim)
{
    return (dim + OPS_STATE_COLUMNS - 1) / OPS_STATE_COLUMNS;
}

/* The recurrence over the tokens of one sequence. Value head j uses key head j mod key_heads. Unit: a block of columns
 * of a value head's state, head * ops_state_blocks(dim) + block. Where dim is no multiple of OPS_STATE_COLUMNS the last
 * block has columns of zeros behind the others. At least one token. */
typedef struct ops_delta {
    const float *q, *k, *v;    /* [tokens] rows of [key_heads][dim], [key_heads][dim], [value_heads][dim] */
    size_t stride;             /* from token to token, of q, k and v */
    const float *kq;           /* [tokens][key_heads] */
    const float *decay, *beta; /* [tokens][value_heads] */
    const float *before;       /* [value_heads][blocks][dim of k][OPS_STATE_COLUMNS of v] */
    size_t tokens, key_heads, value_heads, dim;
    float *after; /* like before; may be the same array */
    float *out;   /* [tokens][value_heads][dim] */
} ops_delta;
typedef void ops_delta_fn(const ops_delta *op, ops_range blocks);

/* o = RMSNorm(o) * weight * sigmoid(z), in place. Unit: a value head of a token. */
typedef struct ops_gated_norm {
    const float *z;      /* [rows][dim] */
    const float *weight; /* [dim] */
    size_t dim;
    float eps;
    float *o; /* [rows][dim] */
} ops_gated_norm;
typedef void ops_gated_norm_fn(const ops_gated_norm *op, ops_range rows);

/* ---- experts ---- */

/* The `used` experts with the largest logits, best first, of equal ones the lower number; their weights are their
 * softmax, which is the softmax over all experts, renormalised. Unit: a token. */
typedef struct ops_route {
    const float *logits; /* [tokens][experts] */
    size_t experts, used;
    int32_t *chosen; /* [tokens][used] */
    float *weight;   /* [tokens][used] */
} ops_route;
typedef void ops_route_fn(const ops_route *op, ops_range tokens);

/* out = silu(gate) * up. Unit: a row. */
typedef struct ops_swiglu {
    const float *gate, *up;        /* [rows] rows of [dim] */
    size_t gate_stride, up_stride; /* from row to row */
    size_t dim;
    float *out; /* [rows][dim] */
} ops_swiglu;
typedef void ops_swiglu_fn(const ops_swiglu *op, ops_range rows);

/* out = sum over the chosen experts, best first, of weight * expert, then + sigmoid(gate) * shared. Unit: a piece of a
 * token's row, token * ops_pieces(dim) + piece. */
typedef struct ops_combine {
    const float *expert;  /* rows of [dim]: row place[token][rank] is what the token's expert of that rank gave */
    const int32_t *place; /* [tokens][used] */
    const float *weight;  /* [tokens][used] */
    const float *shared;  /* [tokens][dim] */
    const float *gate;    /* [tokens]: a product */
    size_t used, dim;
    float *out; /* [tokens][dim] */
} ops_combine;
typedef void ops_combine_fn(const ops_combine *op, ops_range pieces);

/* ---- n-gram embedding ---- */

/* out = sigmoid(sign(c) sqrt(max(|c|, 1e-6))) * value, c = <key, query> / sqrt(dim). Unit: a stream of a token,
 * token * streams + stream. */
typedef struct ops_ngram_gate {
    const float *key, *query; /* [tokens][streams][dim] */
    const float *value;       /* [tokens][dim] */
    size_t dim, streams;
    float *out; /* [tokens][streams][dim] */
} ops_ngram_gate;
typedef void ops_ngram_gate_fn(const ops_ngram_gate *op, ops_range rows);

/* residual += a + b, in place. Unit: an element. */
typedef struct ops_ngram_add {
    const float *a, *b;
    float *residual;
} ops_ngram_add;
typedef void ops_ngram_add_fn(const ops_ngram_add *op, ops_range elements);

/* ---- QSA ---- */

/* x = x * sigmoid(gate), in place. Unit: a query head of a token, token * heads + head. */
typedef struct ops_gate {
    const float *gate;
    size_t token_stride, head_stride; /* of the gate */
    size_t heads, dim;
    float *x; /* [tokens][heads][dim] */
} ops_gate;
typedef void ops_gate_fn(const ops_gate *op, ops_range heads);

/* ---- sampling ---- */

/* e^x for finite x <= 0, in binary64; +0 below -708. Exactly 1 at 0. */
double ops_exp64(double x);

/* ---- tables ---- */

typedef struct ops_table {
    const char *isa; /* "scalar", "avx2", ... */
    ops_norm_fn *norm;
    ops_squash_fn *squash;
    ops_mix_fn *mix;
    ops_residual_fn *residual;
    ops_conv_fn *conv;
    ops_unit_fn *unit;
    ops_gates_fn *gates;
    ops_delta_fn *delta;
    ops_gated_norm_fn *gated_norm;
    ops_route_fn *route;
    ops_swiglu_fn *swiglu;
    ops_combine_fn *combine;
    ops_ngram_gate_fn *ngram_gate;
    ops_ngram_add_fn *ngram_add;
    ops_gate_fn *gate;
} ops_table;

/* The best table that this processor can run; the one that the environment variable QSA_ISA names, if it is set. NULL:
 * that name is unknown, not built, or this processor lacks it. *out_wanted: QSA_ISA, NULL if not set. */
const ops_table *ops_choose(const char **out_wanted);

/* Table number i of those that were built and run here, scalar first; NULL past the last. For tests and benches. */
const ops_table *ops_available(size_t i);

#endif
