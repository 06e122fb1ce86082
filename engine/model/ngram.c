/* SPDX-License-Identifier: Apache-2.0 */
#include "model/ngram.h"

#include "model/conv.h"
#include "model/elementwise.h"
#include "model/hyper.h"
#include "model/state.h"

#include <stdbool.h>

void ngram_rows(const ngram_shape *shape, const int32_t *history, int32_t *out_rows)
{
    uint64_t hash = (uint64_t)history[0] * shape->multipliers[0];
    bool cut = false;
    for (uint32_t k = 1; k < shape->size; k++) {
        const int32_t token = cut ? shape->eos : history[k];
        cut = cut || token == shape->eos;
        hash ^= (uint64_t)token * shape->multipliers[k];
        for (uint32_t h = 0; h < shape->heads_per_ngram; h++) {
            const uint32_t head = (k - 1) * shape->heads_per_ngram + h;
            out_rows[head] = (int32_t)(hash % shape->sizes[head] + shape->offsets[head]);
        }
    }
}

/* ---- how much of the value each stream takes ---- */

static float gate_of(const float *key, const float *query, size_t dim)
{
    const float c = dot_f32(key, query, dim) / sqrtf((float)dim);
    const float size = sqrtf(fmaxf(fabsf(c), 1e-6f));
    return sigmoid_f32(c > 0 ? size : c < 0 ? -size : 0.0f);
}

/* A row is one stream of one token: sigmoid(c) * value. */
static void run_gate(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const float *key = out->src[0]->data, *query = out->src[1]->data;
    const struct ggml_tensor *value = out->src[2];
    const size_t dim = (size_t)value->ne[0], streams = (size_t)out->ne[0] / dim;
    const share rows = share_of(streams * (size_t)out->ne[1], ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float gate = gate_of(key + row * dim, query + row * dim, dim);
        const float *from = (const float *)value->data + row / streams * dim;
        float *to = (float *)out->data + row * dim;
        for (size_t i = 0; i < dim; i++)
            to[i] = gate * from[i];
    }
}

/* R += G + conv, in place. */
static void run_add(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const float *gated = out->src[1]->data, *conv = out->src[2]->data;
    float *residual = out->data;
    const share work = share_of((size_t)ggml_nelements(out), ith, nth);
    for (size_t i = work.begin; i < work.end; i++)
        residual[i] += gated[i] + conv[i];
}

struct ggml_tensor *ngram_layer(graph_builder *b, uint32_t layer, struct ggml_tensor *residual,
                                struct ggml_tensor *rows)
{
    const ngram_weights *w = &b->weights->layers[layer].ngram;
    const ngram_shape *g = &b->shape->ngram;
    const int64_t dim = residual->ne[0], streams = residual->ne[1], tokens = residual->ne[2];
    struct ggml_tensor *key = matrix_product(b, w->key, rows);
    struct ggml_tensor *sources[] = {
        norm_streams(b, w->norm_key, ggml_reshape_3d(b->context, key, dim, streams, tokens)),
        norm_streams(b, w->norm_query, residual),
        matrix_product(b, w->value, rows),
    };
    struct ggml_tensor *gated = custom_node(b, dim * streams, tokens, 1, sources, 3, run_gate, NULL);
    struct ggml_tensor *normed =
        norm_streams(b, w->norm_conv, ggml_reshape_3d(b->context, gated, dim, streams, tokens));
    const conv_options conv = {w->conv, g->conv, g->size, state_ngram_offset(b->shape, layer)};
    struct ggml_tensor *addends[] = {gated, conv_silu(b, &conv, normed)};
    return ggml_custom_inplace(b->context, residual, addends, 2, run_add, GGML_N_TASKS_MAX, NULL);
}
