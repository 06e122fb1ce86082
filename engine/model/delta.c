/* SPDX-License-Identifier: Apache-2.0 */
#include "model/delta.h"

#include "model/conv.h"
#include "model/elementwise.h"
#include "model/state.h"

/* Columns of a head's matrix that are one piece of work. They lie together (state.h) and stay in the first-level cache over
 * all tokens. */
enum { COLUMNS = STATE_COLUMNS };

static const float L2_EPS = 1e-6f;

/* ---- q and k to unit length, in place, before the matrices ---- */

typedef struct unit_params {
    delta_shape shape;
} unit_params;

static void run_unit(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const delta_shape *d = &((const unit_params *)user)->shape;
    const size_t heads = 2 * (size_t)d->key_heads;
    const float q_scale = 1.0f / sqrtf((float)d->dim);
    const share work = share_of(heads * (size_t)out->ne[1], ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const size_t head = i % heads;
        float *x = (float *)out->data + i / heads * d->channels + head * d->dim;
        const float scale = 1.0f / sqrtf(dot_f32(x, x, d->dim) + L2_EPS) * (head < d->key_heads ? q_scale : 1.0f);
        for (size_t j = 0; j < d->dim; j++) {
            x[j] *= scale;
        }
    }
}

/* ---- the recurrence ---- */

typedef struct recurrence_params {
    delta_shape shape;
    const float *dt, *a; /* [value heads] */
    size_t state_offset;
    const batch_layout *layout;
} recurrence_params;

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* The formula's S^T k and S^T q for columns of S [dim][n]. Lanes run along the columns, so nothing is added across lanes;
 * where n is a constant, the sums stay in registers. */
static inline void column_sums(const float *restrict s, const float *restrict k, const float *restrict q, size_t dim,
                               size_t n, float *restrict out_k, float *restrict out_q)
{
    float sum_k[COLUMNS] = {0}, sum_q[COLUMNS] = {0};
    for (size_t i = 0; i < dim; i++) {
        for (size_t j = 0; j < n; j++) {
            sum_k[j] += s[i * n + j] * k[i];
            sum_q[j] += s[i * n + j] * q[i];
        }
    }
    memcpy(out_k, sum_k, n * sizeof *out_k);
    memcpy(out_q, sum_q, n * sizeof *out_q);
}

/* S = decay * S + k delta^T */
static inline void update_columns(float *restrict s, const float *restrict k, const float *restrict delta, size_t dim,
                                  size_t n, float decay)
{
    for (size_t i = 0; i < dim; i++) {
        for (size_t j = 0; j < n; j++) {
            s[i * n + j] = s[i * n + j] * decay + delta[j] * k[i];
        }
    }
}

/* One token of one value head. */
typedef struct delta_token {
    const float *q, *k; /* [dim] */
    float kq;           /* their product */
    float decay, beta;
} delta_token;

/* n columns: what v lacks, the outer product, and the output. S^T q is taken from S before its update, in the same pass as
 * S^T k: (decay S + k delta^T)^T q = decay S^T q + delta (k . q). */
static inline void step_columns(const delta_token *t, float *restrict s, const float *restrict v, size_t dim, size_t n,
                                float *restrict out)
{
    float delta[COLUMNS], said[COLUMNS];
    column_sums(s, t->k, t->q, dim, n, delta, said);
    for (size_t j = 0; j < n; j++) {
        delta[j] = t->beta * (v[j] - t->decay * delta[j]);
        out[j] = t->decay * said[j] + delta[j] * t->kq;
    }
    update_columns(s, t->k, delta, dim, n, t->decay);
}

static delta_token token_of(const recurrence_params *p, const struct ggml_tensor *out, size_t token, size_t head)
{
    const delta_shape *d = &p->shape;
    const float *qkv = out->src[0]->data, *alpha = out->src[1]->data, *beta = out->src[2]->data;
    const size_t at = token * d->value_heads + head;
    delta_token t = {.q = qkv + token * d->channels + head % d->key_heads * d->dim};
    t.k = t.q + d->key_heads * d->dim;
    t.kq = dot_f32(t.k, t.q, d->dim);
    t.decay = expf(p->a[head] * softplus(alpha[at] + p->dt[head]));
    t.beta = sigmoid_f32(beta[at]);
    return t;
}

/* Columns [begin, begin + n) of one value head's matrix over all tokens of one session. */
static void run_columns(const recurrence_params *p, const batch_segment *segment, struct ggml_tensor *out, size_t head,
                        size_t begin, size_t n)
{
    const delta_shape *d = &p->shape;
    const size_t matrix = p->state_offset + (head * d->dim + begin) * d->dim;
    float *s = segment->after + matrix;
    memcpy(s, segment->before + matrix, n * d->dim * sizeof *s);
    for (size_t token = segment->first; token < (size_t)segment->first + segment->tokens; token++) {
        const delta_token t = token_of(p, out, token, head);
        const float *v =
            (const float *)out->src[0]->data + token * d->channels + ((size_t)2 * d->key_heads + head) * d->dim + begin;
        float *to = (float *)out->data + token * d->inner + head * d->dim + begin;
        if (n == COLUMNS) {
            step_columns(&t, s, v, d->dim, COLUMNS, to);
        } else {
            step_columns(&t, s, v, d->dim, n, to);
        }
    }
}

static void run_recurrence(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const recurrence_params *p = user;
    const size_t dim = p->shape.dim, blocks = (dim + COLUMNS - 1) / COLUMNS, items = blocks * p->shape.value_heads;
    const share work = share_of(items * p->layout->count, ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const size_t begin = i % blocks * COLUMNS, n = dim - begin < COLUMNS ? dim - begin : COLUMNS;
        run_columns(p, &p->layout->segments[i / items], out, i / blocks % p->shape.value_heads, begin, n);
    }
}

/* ---- o = RMSNorm(o) * norm * sigmoid(z), in place ---- */

typedef struct gate_params {
    const float *norm;
    size_t dim;
    float eps;
} gate_params;

static void run_gate(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const gate_params *p = user;
    const float *z = out->src[1]->data;
    const share rows = share_of((size_t)ggml_nelements(out) / p->dim, ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        float *o = (float *)out->data + row * p->dim;
        const float factor = rms_factor(o, p->dim, p->eps);
        for (size_t i = 0; i < p->dim; i++) {
            o[i] = o[i] * factor * p->norm[i] * sigmoid_f32(z[row * p->dim + i]);
        }
    }
}

/* ---- the layer ---- */

static struct ggml_tensor *recurrence(graph_builder *b, uint32_t layer, struct ggml_tensor *qkv, struct ggml_tensor *x)
{
    const delta_weights *w = &b->weights->layers[layer].delta;
    const delta_shape *d = &b->shape->delta;
    const recurrence_params params = {*d, w->dt, w->a, state_matrix_offset(b->shape, layer), b->layout};
    struct ggml_tensor *sources[] = {qkv, matrix_product(b, w->alpha, x), matrix_product(b, w->beta, x)};
    return custom_node(b, d->inner, b->tokens, 1, sources, 3, run_recurrence, keep_params(b, &params, sizeof params));
}

struct ggml_tensor *delta_layer(graph_builder *b, uint32_t layer, struct ggml_tensor *x)
{
    const delta_weights *w = &b->weights->layers[layer].delta;
    const delta_shape *d = &b->shape->delta;
    const conv_options conv = {w->conv, d->conv, 1, state_conv_offset(b->shape, layer)};
    struct ggml_tensor *qkv = conv_silu(b, &conv, matrix_product(b, w->qkv, x));
    const unit_params unit = {*d};
    qkv = ggml_custom_inplace(b->context, qkv, NULL, 0, run_unit, GGML_N_TASKS_MAX, keep_params(b, &unit, sizeof unit));
    struct ggml_tensor *o = recurrence(b, layer, qkv, x);
    struct ggml_tensor *z = matrix_product(b, w->gate, x);
    const gate_params gate = {w->norm, d->dim, b->shape->eps};
    o = ggml_custom_inplace(b->context, o, &z, 1, run_gate, GGML_N_TASKS_MAX, keep_params(b, &gate, sizeof gate));
    return matrix_product(b, w->output, o);
}
