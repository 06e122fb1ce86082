/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation for vectors of VEC floats, the bits of scalar.c. Lanes run across independent results or hold the
 * sixteen sums of a dot product, so that the width cannot be seen.
 *
 * A file of an instruction set includes this once, after it has defined
 *   VEC                       lanes: 4, 8 or 16
 *   vec                       the vector, on which the compiler's + - * / work lane by lane
 *   DELTA_BLOCKS              blocks of a state's columns whose sums fit in registers together
 *   vec_load, vec_store       at any address
 *   vec_load_first, vec_store_first   of the first n < VEC lanes; others are loaded as +0 and not stored
 *   vec_fma(a, b, c)          a * b + c, rounded once
 *   vec_if_less(x, y, a, b)   x < y ? a : b
 *   vec_if_at_most(x, y, a, b) x <= y ? a : b
 *   vec_any_above(x, y)       whether x > y in any lane */
#ifndef QSA_OPS_VECTOR_H
#define QSA_OPS_VECTOR_H

#include "ops/tables.h"

typedef uint32_t vec_bits __attribute__((vector_size(VEC * sizeof(uint32_t))));

/* Unrolls the loop that follows, so that an array of vectors lives in registers. */
#if defined(__clang__)
#define OPS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OPS_UNROLL _Pragma("GCC unroll 16")
#endif

OPS_INLINE vec vec_of(float x)
{
    return x - (vec){0};
}

/* Of n lanes; n is a constant where it matters. */
OPS_INLINE vec vec_get(const float *from, size_t n)
{
    return n < VEC ? vec_load_first(from, n) : vec_load(from);
}

OPS_INLINE void vec_put(float *to, size_t n, vec v)
{
    if (n < VEC)
        vec_store_first(to, n, v);
    else
        vec_store(to, v);
}

/* Runs call, in which i is the first of n elements of [first, last) that a vector takes. */
#define OPS_EACH_VEC(first, last, call)                                                                                \
    do {                                                                                                               \
        size_t i = first;                                                                                              \
        for (; i + VEC <= last; i += VEC) {                                                                            \
            enum { n = VEC };                                                                                          \
            call;                                                                                                      \
        }                                                                                                              \
        if (i < last) {                                                                                                \
            const size_t n = last - i;                                                                                 \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

/* ---- elementary functions: those of elementary.h, lane by lane ---- */

OPS_INLINE vec vec_exp(vec x)
{
    const vec shifted = vec_fma(x, vec_of(OPS_LOG2E_HIGH), vec_of(QSA_E2_ROUNDER)), n = shifted - QSA_E2_ROUNDER;
    const vec r = vec_fma(x, vec_of(OPS_LOG2E_LOW), vec_fma(x, vec_of(OPS_LOG2E_HIGH), -n));
    vec p = vec_of(QSA_E2_C6);
    p = vec_fma(p, r, vec_of(QSA_E2_C5));
    p = vec_fma(p, r, vec_of(QSA_E2_C4));
    p = vec_fma(p, r, vec_of(QSA_E2_C3));
    p = vec_fma(p, r, vec_of(QSA_E2_C2));
    p = vec_fma(p, r, vec_of(QSA_E2_C1));
    p = vec_fma(p, r, vec_of(QSA_E2_C0));
    const vec y = (vec)((vec_bits)p + ((vec_bits)shifted << 23));
    return vec_if_less(x, vec_of(OPS_EXP_LEAST), vec_of(0.0f),
                       vec_if_at_most(x, vec_of(OPS_EXP_MOST), y, x + INFINITY));
}

OPS_INLINE vec vec_one_plus_exp(vec x)
{
    return 1.0f + vec_exp(-x);
}

OPS_INLINE vec vec_sigmoid(vec x)
{
    return 1.0f / vec_one_plus_exp(x);
}

OPS_INLINE vec vec_silu(vec x)
{
    return x / vec_one_plus_exp(x);
}

OPS_INLINE vec vec_log1p(vec u)
{
    const vec s = u / (2.0f + u), z = s * s;
    vec p = vec_of(OPS_LOG_C4);
    p = vec_fma(p, z, vec_of(OPS_LOG_C3));
    p = vec_fma(p, z, vec_of(OPS_LOG_C2));
    p = vec_fma(p, z, vec_of(OPS_LOG_C1));
    p = vec_fma(p, z, vec_of(OPS_LOG_C0));
    return vec_fma(s, p * z, 2.0f * s);
}

OPS_INLINE vec vec_softplus(vec x)
{
    const vec minus_size = (vec)((vec_bits)x | 0x80000000u);
    return vec_if_less(vec_of(0.0f), x, x, vec_of(0.0f)) + vec_log1p(vec_exp(minus_size));
}

/* ---- sums of sixteen lanes ---- */

enum { SUM_VECS = OPS_LANES / VEC };

/* dot16 of `rows` pairs of vectors, each b + its stride from the one before; side by side, because one sum alone waits
 * for its own last step. */
OPS_INLINE void dots(const float *a, const float *b, size_t stride, size_t rows, size_t n, float *out)
{
    vec sums[4][SUM_VECS] = {{{0}}};
    size_t i = 0;
    for (; i + OPS_LANES <= n; i += OPS_LANES) {
        OPS_UNROLL
        for (size_t r = 0; r < rows; r++) {
            OPS_UNROLL
            for (size_t v = 0; v < SUM_VECS; v++) {
                const size_t at = r * stride + i + v * VEC;
                sums[r][v] = vec_fma(vec_load(a + at), vec_load(b + at), sums[r][v]);
            }
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t v = 0; i < n && v < SUM_VECS; v++) {
            const size_t at = i + v * VEC, left = at < n ? n - at : 0;
            sums[r][v] = vec_fma(vec_get(a + r * stride + at, left), vec_get(b + r * stride + at, left), sums[r][v]);
        }
        float lanes[OPS_LANES];
        for (size_t v = 0; v < SUM_VECS; v++)
            vec_store(lanes + v * VEC, sums[r][v]);
        out[r] = ops_sum_lanes(lanes);
    }
}

OPS_INLINE float dot(const float *a, const float *b, size_t n)
{
    float sum;
    dots(a, b, 0, 1, n, &sum);
    return sum;
}

OPS_INLINE float norm_scale(float squares, size_t dim, float eps)
{
    return 1.0f / sqrtf(squares / (float)dim + eps);
}

/* ---- hyper-connections ---- */

OPS_INLINE void norm_columns(const float *x, float scale, const float *weight, float *out, size_t i, size_t n)
{
    vec_put(out + i, n, (vec_get(x + i, n) * scale) * vec_get(weight + i, n));
}

OPS_INLINE void norm_rows(const ops_norm *op, size_t row, size_t rows)
{
    float squares[4];
    dots(op->x + row * op->dim, op->x + row * op->dim, op->dim, rows, op->dim, squares);
    for (size_t r = row; r < row + rows; r++) {
        const float *x = op->x + r * op->dim, *weight = op->weight + r % op->weight_rows * op->dim;
        const float scale = norm_scale(squares[r - row], op->dim, op->eps);
        float *out = op->out + r * op->dim;
        OPS_EACH_VEC(0, op->dim, norm_columns(x, scale, weight, out, i, n));
    }
}

static void norm(const ops_norm *op, ops_range rows)
{
    size_t row = rows.begin;
    for (; row + 4 <= rows.end; row += 4)
        norm_rows(op, row, 4);
    for (; row < rows.end; row++)
        norm_rows(op, row, 1);
}

OPS_INLINE void squash_columns(float *x, float c, size_t i, size_t n)
{
    vec_put(x + i, n, vec_silu(vec_get(x + i, n) * c));
}

static void squash(const ops_squash *op, ops_range elements)
{
    const float c = 1.0f / (float)op->streams;
    OPS_EACH_VEC(elements.begin, elements.end, squash_columns(op->x, c, i, n));
}

/* u, n: of the token's first stream. */
OPS_INLINE void mix_columns(const ops_mix *op, const float *u, const float *normed, float *out, size_t i, size_t n)
{
    vec sum = vec_of(0.0f);
    for (size_t s = 0; s < op->streams; s++)
        sum = vec_fma(vec_sigmoid(vec_get(u + s * op->dim + i, n)), vec_get(normed + s * op->dim + i, n), sum);
    vec_put(out + i, n, sum * (1.0f / (float)op->streams));
}

/* The columns of a piece. */
OPS_INLINE ops_range columns_of(size_t piece, size_t dim)
{
    const size_t begin = piece % ops_pieces(dim) * OPS_PIECE;
    return (ops_range){begin, begin + OPS_PIECE < dim ? begin + OPS_PIECE : dim};
}

static void mix(const ops_mix *op, ops_range pieces)
{
    for (size_t piece = pieces.begin; piece < pieces.end; piece++) {
        const size_t token = piece / ops_pieces(op->dim), first = token * op->streams * op->dim;
        const ops_range columns = columns_of(piece, op->dim);
        OPS_EACH_VEC(columns.begin, columns.end,
                     mix_columns(op, op->u + first, op->n + first, op->out + token * op->dim, i, n));
    }
}

OPS_INLINE void residual_columns(float gain, const float *y, float *residual, size_t i, size_t n)
{
    vec_put(residual + i, n, vec_fma(vec_of(gain), vec_get(y + i, n), vec_get(residual + i, n)));
}

static void residual(const ops_residual *op, ops_range rows)
{
    const float c = 1.0f / (float)op->streams;
    for (size_t row = rows.begin; row < rows.end; row++) {
        const size_t token = row / op->streams, stream = row % op->streams;
        const float gain = 2.0f * ops_sigmoid(op->gain[token * op->gain_stride + stream] * c);
        OPS_EACH_VEC(0, op->dim, residual_columns(gain, op->y + token * op->dim, op->residual + row * op->dim, i, n));
    }
}

/* ---- convolution ---- */

OPS_INLINE void conv_columns(const ops_conv *op, const float *const *rows, size_t taps, float *out, size_t i, size_t n)
{
    vec sum = vec_of(0.0f);
    for (size_t k = 0; k < taps; k++)
        sum = vec_fma(vec_get(op->weight + k * op->channels + i, n), vec_get(rows[k] + i, n), sum);
    vec_put(out + i, n, vec_silu(sum));
}

OPS_INLINE void conv_taps(const ops_conv *op, ops_range channels, size_t taps)
{
    for (size_t t = 0; t < op->tokens; t++) {
        const float *rows[OPS_MOST_TAPS];
        for (size_t k = 0; k < taps; k++)
            rows[k] = ops_conv_row(op, t + k * op->dilation);
        float *out = op->out + t * op->channels;
        OPS_EACH_VEC(channels.begin, channels.end, conv_columns(op, rows, taps, out, i, n));
    }
}

static void conv(const ops_conv *op, ops_range channels)
{
    if (op->taps == 4)
        conv_taps(op, channels, 4);
    else
        conv_taps(op, channels, op->taps);
}

/* ---- gated delta net ---- */

OPS_INLINE void scale_columns(float *x, float scale, size_t i, size_t n)
{
    vec_put(x + i, n, vec_get(x + i, n) * scale);
}

static void unit(const ops_unit *op, ops_range heads)
{
    const float shorter = 1.0f / sqrtf((float)op->dim);
    for (size_t head = heads.begin; head < heads.end; head++) {
        const size_t at = head / op->key_heads * op->stride + head % op->key_heads * op->dim;
        float *q = op->q + at, *k = op->k + at;
        const float q_scale = 1.0f / sqrtf(dot(q, q, op->dim) + OPS_UNIT_EPS) * shorter;
        const float k_scale = 1.0f / sqrtf(dot(k, k, op->dim) + OPS_UNIT_EPS);
        OPS_EACH_VEC(0, op->dim, scale_columns(q, q_scale, i, n));
        OPS_EACH_VEC(0, op->dim, scale_columns(k, k_scale, i, n));
        op->kq[head] = dot(k, q, op->dim);
    }
}

OPS_INLINE void gates_columns(const ops_gates *op, float *decay, float *beta, size_t i, size_t n)
{
    const vec wait = vec_softplus(vec_get(decay + i, n) + vec_get(op->dt + i, n));
    vec_put(decay + i, n, vec_exp(vec_get(op->a + i, n) * wait));
    vec_put(beta + i, n, vec_sigmoid(vec_get(beta + i, n)));
}

static void gates(const ops_gates *op, ops_range tokens)
{
    for (size_t t = tokens.begin; t < tokens.end; t++) {
        float *decay = op->decay + t * op->heads, *beta = op->beta + t * op->heads;
        OPS_EACH_VEC(0, op->heads, gates_columns(op, decay, beta, i, n));
    }
}

enum { BLOCK_VECS = OPS_STATE_COLUMNS / VEC };

/* One token of one value head. */
typedef struct delta_token {
    const float *q, *k; /* [dim] */
    float kq, decay, beta;
} delta_token;

OPS_INLINE delta_token delta_token_at(const ops_delta *op, size_t token, size_t head)
{
    const size_t key_head = head % op->key_heads, key = token * op->stride + key_head * op->dim;
    const size_t at = token * op->value_heads + head;
    return (delta_token){op->q + key, op->k + key, op->kq[token * op->key_heads + key_head], op->decay[at],
                         op->beta[at]};
}

/* S^T k and S^T q of some columns. */
typedef struct answers {
    vec k[DELTA_BLOCKS * BLOCK_VECS], q[DELTA_BLOCKS * BLOCK_VECS];
} answers;

/* Floats from the beginning of the first block's state to row i of vector v. */
OPS_INLINE size_t state_at(size_t dim, size_t i, size_t v)
{
    return v / BLOCK_VECS * dim * OPS_STATE_COLUMNS + i * OPS_STATE_COLUMNS + v % BLOCK_VECS * VEC;
}

OPS_INLINE answers ask(const float *s, const delta_token *t, size_t dim, size_t vecs)
{
    answers a = {0};
    for (size_t i = 0; i < dim; i++) {
        const vec k = vec_of(t->k[i]), q = vec_of(t->q[i]);
        OPS_UNROLL
        for (size_t v = 0; v < vecs; v++) {
            const vec x = vec_load(s + state_at(dim, i, v));
            a.k[v] = vec_fma(x, k, a.k[v]);
            a.q[v] = vec_fma(x, q, a.q[v]);
        }
    }
    return a;
}

OPS_INLINE void update(const float *before, float *after, const delta_token *t, const vec *d, size_t dim, size_t vecs)
{
    for (size_t i = 0; i < dim; i++) {
        const vec k = vec_of(t->k[i]);
        OPS_UNROLL
        for (size_t v = 0; v < vecs; v++) {
            const size_t at = state_at(dim, i, v);
            vec_store(after + at, vec_fma(k, d[v], vec_load(before + at) * t->decay));
        }
    }
}

/* The update by one token and the answers to the next, in one pass over the state. */
OPS_INLINE answers update_and_ask(const float *before, float *after, const delta_token *t, const vec *d,
                                  const delta_token *next, size_t dim, size_t vecs)
{
    answers a = {0};
    const vec decay = vec_of(t->decay);
    for (size_t i = 0; i < dim; i++) {
        const vec k = vec_of(t->k[i]), next_k = vec_of(next->k[i]), next_q = vec_of(next->q[i]);
        OPS_UNROLL
        for (size_t v = 0; v < vecs; v++) {
            const size_t at = state_at(dim, i, v);
            const vec x = vec_fma(k, d[v], vec_load(before + at) * decay);
            vec_store(after + at, x);
            a.k[v] = vec_fma(x, next_k, a.k[v]);
            a.q[v] = vec_fma(x, next_q, a.q[v]);
        }
    }
    return a;
}

/* columns: of v and of the output that there are. */
OPS_INLINE void answer(const delta_token *t, const answers *a, const float *v, size_t columns, size_t vecs, vec *out_d,
                       float *out)
{
    OPS_UNROLL
    for (size_t i = 0; i < vecs; i++) {
        const size_t at = i * VEC, left = at < columns ? columns - at : 0;
        out_d[i] = t->beta * (vec_get(v + at, left) - t->decay * a->k[i]);
        vec_put(out + at, left, vec_fma(out_d[i], vec_of(t->kq), t->decay * a->q[i]));
    }
}

enum { LINE_FLOATS = 16, TOKENS_AHEAD = 4 };

OPS_INLINE void fetch(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LINE_FLOATS)
        __builtin_prefetch(x + i);
}

/* Tokens are pages apart, where the processor does not look by itself. columns: of v, from `column` on. */
OPS_INLINE void fetch_token(const ops_delta *op, size_t token, size_t head, size_t column, size_t columns)
{
    if (token >= op->tokens)
        return;
    const delta_token t = delta_token_at(op, token, head);
    fetch(t.q, op->dim);
    fetch(t.k, op->dim);
    fetch(op->v + token * op->stride + column, columns);
    for (size_t i = 0; i < columns; i += LINE_FLOATS)
        __builtin_prefetch(op->out + token * op->value_heads * op->dim + column + i, 1);
}

/* `blocks` blocks of columns from `block` on, of one head; columns: those that there are. */
OPS_INLINE void delta_columns(const ops_delta *op, size_t block, size_t blocks, size_t columns)
{
    const size_t per_head = ops_state_blocks(op->dim), head = block / per_head, vecs = blocks * BLOCK_VECS;
    const size_t column = head * op->dim + block % per_head * OPS_STATE_COLUMNS;
    const float *s = op->before + block * op->dim * OPS_STATE_COLUMNS;
    float *after = op->after + block * op->dim * OPS_STATE_COLUMNS;
    delta_token t = delta_token_at(op, 0, head);
    answers a = ask(s, &t, op->dim, vecs);
    for (size_t token = 0;; token++) {
        vec d[DELTA_BLOCKS * BLOCK_VECS];
        fetch_token(op, token + TOKENS_AHEAD, head, column, columns);
        answer(&t, &a, op->v + token * op->stride + column, columns, vecs, d,
               op->out + token * op->value_heads * op->dim + column);
        if (token + 1 == op->tokens) {
            update(s, after, &t, d, op->dim, vecs);
            return;
        }
        const delta_token next = delta_token_at(op, token + 1, head);
        a = update_and_ask(s, after, &t, d, &next, op->dim, vecs);
        t = next;
        s = after;
    }
}

/* Blocks of one head. */
static void delta_blocks(const ops_delta *op, ops_range blocks)
{
    const size_t per_head = ops_state_blocks(op->dim);
    for (size_t block = blocks.begin; block < blocks.end;) {
        const size_t columns = op->dim - block % per_head * OPS_STATE_COLUMNS;
        if (columns < OPS_STATE_COLUMNS) {
            delta_columns(op, block, 1, columns);
            block += 1;
        } else if (DELTA_BLOCKS > 1 && columns >= DELTA_BLOCKS * OPS_STATE_COLUMNS &&
                   block + DELTA_BLOCKS <= blocks.end) {
            delta_columns(op, block, DELTA_BLOCKS, DELTA_BLOCKS * OPS_STATE_COLUMNS);
            block += DELTA_BLOCKS;
        } else {
            delta_columns(op, block, 1, OPS_STATE_COLUMNS);
            block += 1;
        }
    }
}

/* Tokens that all blocks of a head take before the next ones: what is read of them stays in the second-level cache. */
enum { STRIP = 64 };

/* The same for tokens [first, first + STRIP) alone, or those that are left. */
OPS_INLINE ops_delta strip_of(ops_delta op, size_t first)
{
    op.q += first * op.stride;
    op.k += first * op.stride;
    op.v += first * op.stride;
    op.kq += first * op.key_heads;
    op.decay += first * op.value_heads;
    op.beta += first * op.value_heads;
    op.out += first * op.value_heads * op.dim;
    op.before = first == 0 ? op.before : op.after;
    op.tokens = op.tokens - first < STRIP ? op.tokens - first : STRIP;
    return op;
}

static void delta(const ops_delta *op, ops_range blocks)
{
    const size_t per_head = ops_state_blocks(op->dim);
    for (size_t begin = blocks.begin, end; begin < blocks.end; begin = end) {
        end = (begin / per_head + 1) * per_head;
        end = end < blocks.end ? end : blocks.end;
        for (size_t first = 0; first < op->tokens; first += STRIP) {
            const ops_delta strip = strip_of(*op, first);
            delta_blocks(&strip, (ops_range){begin, end});
        }
    }
}

OPS_INLINE void gated_columns(const ops_gated_norm *op, const float *z, float scale, float *o, size_t i, size_t n)
{
    const vec normed = (vec_get(o + i, n) * scale) * vec_get(op->weight + i, n);
    vec_put(o + i, n, normed / vec_one_plus_exp(vec_get(z + i, n)));
}

static void gated_norm(const ops_gated_norm *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *z = op->z + row * op->dim;
        float *o = op->o + row * op->dim;
        const float scale = norm_scale(dot(o, o, op->dim), op->dim, op->eps);
        OPS_EACH_VEC(0, op->dim, gated_columns(op, z, scale, o, i, n));
    }
}

/* ---- experts ---- */

static void route_token(const ops_route *op, const float *logits, int32_t *chosen)
{
    size_t e = 0;
    for (; e < op->used; e++)
        ops_offer_expert(logits, (int32_t)e, chosen, e, op->used);
    for (; e + VEC <= op->experts; e += VEC)
        if (vec_any_above(vec_load(logits + e), vec_of(logits[chosen[op->used - 1]])))
            for (size_t i = e; i < e + VEC; i++)
                ops_offer_expert(logits, (int32_t)i, chosen, op->used, op->used);
    for (; e < op->experts; e++)
        ops_offer_expert(logits, (int32_t)e, chosen, op->used, op->used);
}

static void route(const ops_route *op, ops_range tokens)
{
    for (size_t t = tokens.begin; t < tokens.end; t++) {
        const float *logits = op->logits + t * op->experts;
        int32_t *chosen = op->chosen + t * op->used;
        route_token(op, logits, chosen);
        ops_weigh_experts(logits, chosen, op->used, op->weight + t * op->used);
    }
}

OPS_INLINE void swiglu_columns(const float *gate, const float *up, float *out, size_t i, size_t n)
{
    vec_put(out + i, n, vec_silu(vec_get(gate + i, n)) * vec_get(up + i, n));
}

static void swiglu(const ops_swiglu *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *gate = op->gate + row * op->gate_stride, *up = op->up + row * op->up_stride;
        OPS_EACH_VEC(0, op->dim, swiglu_columns(gate, up, op->out + row * op->dim, i, n));
    }
}

OPS_INLINE void combine_columns(const ops_combine *op, size_t token, float shared_weight, size_t i, size_t n)
{
    const int32_t *place = op->place + token * op->used;
    const float *weight = op->weight + token * op->used;
    vec sum = vec_of(0.0f);
    for (size_t rank = 0; rank < op->used; rank++)
        sum = vec_fma(vec_of(weight[rank]), vec_get(op->expert + (size_t)place[rank] * op->dim + i, n), sum);
    const size_t at = token * op->dim + i;
    vec_put(op->out + at, n, vec_fma(vec_of(shared_weight), vec_get(op->shared + at, n), sum));
}

static void combine(const ops_combine *op, ops_range pieces)
{
    for (size_t piece = pieces.begin; piece < pieces.end; piece++) {
        const size_t token = piece / ops_pieces(op->dim);
        const ops_range columns = columns_of(piece, op->dim);
        const float shared_weight = ops_sigmoid(op->gate[token]);
        OPS_EACH_VEC(columns.begin, columns.end, combine_columns(op, token, shared_weight, i, n));
    }
}

/* ---- n-gram embedding ---- */

OPS_INLINE void scaled_columns(const float *x, float scale, float *out, size_t i, size_t n)
{
    vec_put(out + i, n, vec_get(x + i, n) * scale);
}

static void ngram_gate(const ops_ngram_gate *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float product = dot(op->key + row * op->dim, op->query + row * op->dim, op->dim);
        const float gate = ops_ngram_sigmoid(product, op->dim);
        const float *value = op->value + row / op->streams * op->dim;
        OPS_EACH_VEC(0, op->dim, scaled_columns(value, gate, op->out + row * op->dim, i, n));
    }
}

OPS_INLINE void ngram_add_columns(const ops_ngram_add *op, size_t i, size_t n)
{
    vec_put(op->residual + i, n, vec_get(op->residual + i, n) + (vec_get(op->a + i, n) + vec_get(op->b + i, n)));
}

static void ngram_add(const ops_ngram_add *op, ops_range elements)
{
    OPS_EACH_VEC(elements.begin, elements.end, ngram_add_columns(op, i, n));
}

/* ---- QSA ---- */

OPS_INLINE void gate_columns(const float *gate, float *x, size_t i, size_t n)
{
    vec_put(x + i, n, vec_get(x + i, n) / vec_one_plus_exp(vec_get(gate + i, n)));
}

static void gate(const ops_gate *op, ops_range heads)
{
    for (size_t head = heads.begin; head < heads.end; head++) {
        const float *g = op->gate + head / op->heads * op->token_stride + head % op->heads * op->head_stride;
        OPS_EACH_VEC(0, op->dim, gate_columns(g, op->x + head * op->dim, i, n));
    }
}

#endif
