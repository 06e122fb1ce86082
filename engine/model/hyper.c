/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hyper.h"

#include "model/elementwise.h"
#include "model/hyper_low.h"

/* Elements that one call of an inner loop takes; keeps all its operands in the first-level cache. */
enum { BLOCK = 512 };

typedef struct norm_params {
    const float *weights;
    float eps;
} norm_params;

/* A row is one stream of one token. */
static void run_norm(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const norm_params *p = user;
    const struct ggml_tensor *x = out->src[0];
    const size_t dim = (size_t)x->ne[0], streams = (size_t)x->ne[1];
    const share rows = share_of(streams * (size_t)x->ne[2], ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *from = (const float *)x->data + row * dim;
        const float *w = p->weights + row % streams * dim;
        float *to = (float *)out->data + row * dim;
        const float factor = rms_factor(from, dim, p->eps);
        for (size_t i = 0; i < dim; i++)
            to[i] = from[i] * factor * w[i];
    }
}

struct ggml_tensor *norm_streams(graph_builder *b, const float *weights, struct ggml_tensor *x)
{
    const norm_params params = {weights, b->shape->eps};
    return custom_node(b, x->ne[0] * x->ne[1], x->ne[2], 1, &x, 1, run_norm, keep_params(b, &params, sizeof params));
}

/* x = mean over streams of sigmoid(u) * n, for the elements [begin, end) of one token. */
static void mix_block(const float *u, const float *n, size_t dim, size_t streams, size_t begin, size_t end, float *x)
{
    for (size_t i = begin; i < end; i++)
        x[i] = sigmoid_f32(u[i]) * n[i];
    for (size_t s = 1; s < streams; s++)
        for (size_t i = begin; i < end; i++)
            x[i] += sigmoid_f32(u[s * dim + i]) * n[s * dim + i];
    const float scale = 1.0f / (float)streams;
    for (size_t i = begin; i < end; i++)
        x[i] *= scale;
}

static void run_mix(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *u = out->src[0], *n = out->src[1];
    const size_t dim = (size_t)out->ne[0], wide = (size_t)n->ne[0], blocks = (dim + BLOCK - 1) / BLOCK;
    const share work = share_of(blocks * (size_t)out->ne[1], ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const size_t token = i / blocks, begin = i % blocks * BLOCK;
        const size_t end = begin + BLOCK < dim ? begin + BLOCK : dim;
        mix_block((const float *)u->data + token * wide, (const float *)n->data + token * wide, dim, wide / dim, begin,
                  end, (float *)out->data + token * dim);
    }
}

/* ---- reading ---- */

/* d = silu(d / streams), in place. */
static void run_squash(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const float scale = 1.0f / (float)*(const uint32_t *)user;
    float *x = out->data;
    const share work = share_of((size_t)ggml_nelements(out), ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const float v = x[i] * scale;
        x[i] = v * sigmoid_f32(v);
    }
}

hyper_input hyper_read(graph_builder *b, const hyper_weights *weights, struct ggml_tensor *residual)
{
    if (weights->up_turned != NULL)
        return hyper_read_low(b, weights, residual);
    struct ggml_tensor *n = norm_streams(b, weights->norm, residual);
    struct ggml_tensor *low = matrix_product(b, weights->down, n);
    low = ggml_custom_inplace(b->context, low, NULL, 0, run_squash, GGML_N_TASKS_MAX,
                              keep_params(b, &b->shape->streams, sizeof b->shape->streams));
    struct ggml_tensor *sources[] = {matrix_product(b, weights->up, low), n};
    hyper_input input = {custom_node(b, b->shape->embedding, n->ne[1], 1, sources, 2, run_mix, NULL), NULL};
    if (weights->inject != NULL)
        input.gains = matrix_product(b, weights->inject, n);
    return input;
}

/* ---- writing ---- */

static void run_add(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *y = out->src[1], *gains = out->src[2];
    const size_t dim = (size_t)out->ne[0], streams = (size_t)out->ne[1];
    const share rows = share_of(streams * (size_t)out->ne[2], ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        float *to = (float *)out->data + row * dim;
        const float *from = (const float *)y->data + row / streams * dim;
        const float *gain_at =
            (const float *)gains->data + row / streams * (gains->nb[1] / sizeof(float)) + row % streams;
        const float gain = 2.0f * sigmoid_f32(*gain_at / (float)streams);
        for (size_t i = 0; i < dim; i++)
            to[i] += gain * from[i];
    }
}

struct ggml_tensor *hyper_write(graph_builder *b, struct ggml_tensor *residual, const hyper_input *input,
                                struct ggml_tensor *y)
{
    struct ggml_tensor *sources[] = {y, input->gains};
    return ggml_custom_inplace(b->context, residual, sources, 2, run_add, GGML_N_TASKS_MAX, NULL);
}
