/* SPDX-License-Identifier: Apache-2.0 */
#include "model/delta.h"

#include "model/conv.h"
#include "model/elementwise.h"
#include "model/state.h"

/* Rows of a head's matrix that a part takes at a time; they stay in the first-level cache over all tokens. */
enum { ROWS = 32 };

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

/* row = decay * row; returns row . k. */
static float decay_row(float *restrict row, const float *restrict k, size_t dim, float decay)
{
    float lanes[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= dim; i += SUM_LANES) {
        for (size_t l = 0; l < SUM_LANES; l++) {
            row[i + l] *= decay;
            lanes[l] += row[i + l] * k[i + l];
        }
    }
    for (size_t l = 0; i + l < dim; l++) {
        row[i + l] *= decay;
        lanes[l] += row[i + l] * k[i + l];
    }
    return sum_lanes(lanes);
}

/* row = row + delta * k; returns row . q. */
static float correct_row(float *restrict row, const float *restrict k, const float *restrict q, size_t dim, float delta)
{
    float lanes[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= dim; i += SUM_LANES) {
        for (size_t l = 0; l < SUM_LANES; l++) {
            row[i + l] += delta * k[i + l];
            lanes[l] += row[i + l] * q[i + l];
        }
    }
    for (size_t l = 0; i + l < dim; l++) {
        row[i + l] += delta * k[i + l];
        lanes[l] += row[i + l] * q[i + l];
    }
    return sum_lanes(lanes);
}

/* One row of S of one token: decay, what v lacks, the outer product, and the output (S^T of the formula is this row).
 * Two passes over the row instead of four over the matrix: rows do not depend on each other. */
static float step_row(float *row, const float *q, const float *k, size_t dim, float decay, float beta, float v)
{
    const float delta = beta * (v - decay_row(row, k, dim, decay));
    return correct_row(row, k, q, dim, delta);
}

/* Rows [begin, end) of one value head's matrix over all tokens of one session. */
static void step_rows(const recurrence_params *p, const batch_segment *segment, struct ggml_tensor *out, size_t head,
                      size_t begin, size_t end)
{
    const delta_shape *d = &p->shape;
    const float *qkv = out->src[0]->data, *alpha = out->src[1]->data, *beta = out->src[2]->data;
    const size_t dim = d->dim, heads = d->value_heads, key = head % d->key_heads * dim;
    const size_t matrix = p->state_offset + head * dim * dim;
    float *rows = segment->after + matrix;
    memcpy(rows + begin * dim, segment->before + matrix + begin * dim, (end - begin) * dim * sizeof *rows);
    for (size_t t = segment->first; t < (size_t)segment->first + segment->tokens; t++) {
        const float *q = qkv + t * d->channels + key, *k = q + d->key_heads * dim;
        const float *v = qkv + t * d->channels + ((size_t)2 * d->key_heads + head) * dim;
        const float decay = expf(p->a[head] * softplus(alpha[t * heads + head] + p->dt[head]));
        const float b = sigmoid_f32(beta[t * heads + head]);
        float *to = (float *)out->data + t * d->inner + head * dim;
        for (size_t j = begin; j < end; j++) {
            to[j] = step_row(rows + j * dim, q, k, dim, decay, b, v[j]);
        }
    }
}

static void run_recurrence(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const recurrence_params *p = user;
    const size_t dim = p->shape.dim, blocks = (dim + ROWS - 1) / ROWS, items = blocks * p->shape.value_heads;
    const share work = share_of(items * p->layout->count, ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const size_t block = i % blocks, head = i / blocks % p->shape.value_heads;
        const size_t begin = block * ROWS, end = begin + ROWS < dim ? begin + ROWS : dim;
        step_rows(p, &p->layout->segments[i / items], out, head, begin, end);
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
    struct ggml_tensor *sources[] = {qkv, matrix_product(b->context, w->alpha, x),
                                     matrix_product(b->context, w->beta, x)};
    return custom_node(b, d->inner, b->tokens, 1, sources, 3, run_recurrence, keep_params(b, &params, sizeof params));
}

struct ggml_tensor *delta_layer(graph_builder *b, uint32_t layer, struct ggml_tensor *x)
{
    const delta_weights *w = &b->weights->layers[layer].delta;
    const delta_shape *d = &b->shape->delta;
    const conv_options conv = {w->conv, d->conv, 1, state_conv_offset(b->shape, layer)};
    struct ggml_tensor *qkv = conv_silu(b, &conv, matrix_product(b->context, w->qkv, x));
    const unit_params unit = {*d};
    qkv = ggml_custom_inplace(b->context, qkv, NULL, 0, run_unit, GGML_N_TASKS_MAX, keep_params(b, &unit, sizeof unit));
    struct ggml_tensor *o = recurrence(b, layer, qkv, x);
    struct ggml_tensor *z = matrix_product(b->context, w->gate, x);
    const gate_params gate = {w->norm, d->dim, b->shape->eps};
    o = ggml_custom_inplace(b->context, o, &z, 1, run_gate, GGML_N_TASKS_MAX, keep_params(b, &gate, sizeof gate));
    return matrix_product(b->context, w->output, o);
}
