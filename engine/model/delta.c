/* SPDX-License-Identifier: Apache-2.0 */
#include "model/delta.h"

#include "model/conv.h"
#include "model/state.h"
#include "model/vec.h"

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
        for (size_t j = 0; j < d->dim; j++)
            x[j] *= scale;
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

/* One token of one value head. */
typedef struct delta_token {
    const float *q, *k; /* [dim] */
    float kq;           /* their product */
    float decay, beta;
} delta_token;

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

/* Columns of a head's matrix S [dim][STATE_COLUMNS] that are one piece of work: they lie together and stay in the
 * first-level cache. Vectors run along the columns, so nothing is added across lanes. */
enum { COLUMN_VECS = STATE_COLUMNS / VEC };

/* S^T k and S^T q. */
typedef struct answers {
    vec k[COLUMN_VECS], q[COLUMN_VECS];
} answers;

static inline void add_answers(answers *a, size_t v, vec s, const delta_token *t, size_t i)
{
    a->k[v] = vec_fma(s, vec_of(t->k[i]), a->k[v]);
    a->q[v] = vec_fma(s, vec_of(t->q[i]), a->q[v]);
}

static inline answers ask(const float *s, const delta_token *t, size_t dim)
{
    answers a = {0};
    for (size_t i = 0; i < dim; i++)
        for (size_t v = 0; v < COLUMN_VECS; v++)
            add_answers(&a, v, vec_load(s + i * STATE_COLUMNS + v * VEC), t, i);
    return a;
}

/* S = decay * S + k delta^T, and what the next token asks of it, in one pass. */
static inline answers update_and_ask(float *s, const delta_token *t, const vec *delta, const delta_token *next,
                                     size_t dim)
{
    answers a = {0};
    for (size_t i = 0; i < dim; i++) {
        for (size_t v = 0; v < COLUMN_VECS; v++) {
            float *at = s + i * STATE_COLUMNS + v * VEC;
            const vec updated = vec_fma(delta[v], vec_of(t->k[i]), vec_load(at) * t->decay);
            vec_store(at, updated);
            add_answers(&a, v, updated, next, i);
        }
    }
    return a;
}

/* What v lacks, and the output. S^T q is taken from S before its update, in the same pass as S^T k:
 * (decay S + k delta^T)^T q = decay S^T q + delta (k . q). columns: of v that there are. */
static inline void answer(const delta_token *t, const answers *a, const float *v, size_t columns, vec *out_delta,
                          float *out)
{
    for (size_t i = 0; i < COLUMN_VECS; i++) {
        const size_t at = i * VEC, left = at < columns ? columns - at : 0;
        out_delta[i] = t->beta * (vec_load_some(v + at, left) - t->decay * a->k[i]);
        vec_store_some(out + at, left, vec_fma(out_delta[i], vec_of(t->kq), t->decay * a->q[i]));
    }
}

/* Tokens whose numbers are made once for all columns of a head. */
enum { STRIP = 64 };

typedef struct token_strip {
    delta_token tokens[STRIP];
    size_t count;
    const float *v; /* of the first token: [tokens][channels] */
    float *out;     /* [tokens][inner] */
} token_strip;

/* A block of columns from `first` on; columns: of it that there are. */
static inline void run_block(const delta_shape *d, const token_strip *strip, float *s, size_t first, size_t columns)
{
    answers a = ask(s, &strip->tokens[0], d->dim);
    for (size_t i = 0; i < strip->count; i++) {
        const delta_token *t = &strip->tokens[i], *next = i + 1 < strip->count ? t + 1 : t;
        vec delta[COLUMN_VECS];
        answer(t, &a, strip->v + i * d->channels + first, columns, delta, strip->out + i * d->inner + first);
        a = update_and_ask(s, t, delta, next, d->dim);
    }
}

/* Some blocks of columns of one value head over all tokens of one session. */
static void run_head(const recurrence_params *p, const batch_segment *segment, struct ggml_tensor *out, size_t head,
                     share blocks)
{
    const delta_shape *d = &p->shape;
    const size_t block_floats = (size_t)d->dim * STATE_COLUMNS;
    const size_t matrix = p->state_offset + head * state_matrix_blocks(d) * block_floats;
    float *s = segment->after + matrix;
    memcpy(s + blocks.begin * block_floats, segment->before + matrix + blocks.begin * block_floats,
           (blocks.end - blocks.begin) * block_floats * sizeof *s);
    token_strip strip;
    for (size_t done = 0; done < segment->tokens; done += strip.count) {
        const size_t token = segment->first + done, left = segment->tokens - done;
        strip.count = left < STRIP ? left : STRIP;
        for (size_t i = 0; i < strip.count; i++)
            strip.tokens[i] = token_of(p, out, token + i, head);
        strip.v = (const float *)out->src[0]->data + token * d->channels + ((size_t)2 * d->key_heads + head) * d->dim;
        strip.out = (float *)out->data + token * d->inner + head * d->dim;
        for (size_t block = blocks.begin; block < blocks.end; block++) {
            const size_t first = block * STATE_COLUMNS, columns = d->dim - first;
            if (columns >= STATE_COLUMNS)
                run_block(d, &strip, s + block * block_floats, first, STATE_COLUMNS);
            else
                run_block(d, &strip, s + block * block_floats, first, columns);
        }
    }
}

static void run_recurrence(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const recurrence_params *p = user;
    const size_t blocks = state_matrix_blocks(&p->shape), items = blocks * p->shape.value_heads;
    const share work = share_of(items * p->layout->count, ith, nth);
    for (size_t i = work.begin; i < work.end;) {
        const size_t first = i % blocks, n = blocks - first < work.end - i ? blocks - first : work.end - i;
        run_head(p, &p->layout->segments[i / items], out, i / blocks % p->shape.value_heads, (share){first, first + n});
        i += n;
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
        for (size_t i = 0; i < p->dim; i++)
            o[i] = o[i] * factor * p->norm[i] * sigmoid_f32(z[row * p->dim + i]);
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
