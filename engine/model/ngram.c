/* SPDX-License-Identifier: Apache-2.0 */
#include "model/ngram.h"

#include "model/conv.h"
#include "model/product.h"
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

typedef struct ngram_arrays {
    float *key, *query, *gated, *normed, *conv; /* [T][streams][E] */
    float *value;                               /* [T][E] */
} ngram_arrays;

static ngram_arrays place(const model_shape *s, size_t tokens, carver *c)
{
    const size_t wide = (size_t)s->streams * s->embedding;
    ngram_arrays a;
    a.key = carve_floats(c, tokens * wide);
    a.query = carve_floats(c, tokens * wide);
    a.gated = carve_floats(c, tokens * wide);
    a.normed = a.key; /* the gate is the last reader of key */
    a.conv = a.query;
    a.value = carve_floats(c, tokens * s->embedding);
    return a;
}

size_t ngram_scratch_bytes(const model_shape *shape, size_t tokens)
{
    carver c = {NULL, 0};
    (void)place(shape, tokens, &c);
    return c.used;
}

size_t ngram_blocks_bytes(const ngram_weights *weights, size_t tokens)
{
    return larger(product_blocks_bytes(&weights->key, tokens), product_blocks_bytes(&weights->value, tokens));
}

static void run_gate(pass *p, const ngram_weights *w, const ngram_arrays *a)
{
    const model_shape *s = p->shape;
    const size_t e = s->embedding, streams = s->streams, rows = p->tokens * streams;
    const ops_norm keys = {a->key, w->norm_key, e, streams, s->eps, a->key};
    const ops_norm queries = {p->residual, w->norm_query, e, streams, s->eps, a->query};
    const task norms[] = {{task_norm, &keys, rows, rows_grain(e)}, {task_norm, &queries, rows, rows_grain(e)}};
    worker_pool_run(p->workers, p, norms, 2);
    const ops_ngram_gate gate = {a->key, a->query, a->value, e, streams, a->gated};
    run_task(p, task_ngram_gate, &gate, rows, rows_grain(e));
}

void ngram_layer(pass *p, uint32_t layer)
{
    const model_shape *s = p->shape;
    const ngram_weights *w = &p->weights->layers[layer].ngram;
    const size_t e = s->embedding, streams = s->streams;
    carver c = {p->scratch, 0};
    const ngram_arrays a = place(s, p->tokens, &c);
    const product products[] = {{&w->key, a.key, 0}, {&w->value, a.value, 0}};
    multiply(p, p->ngram, p->tokens, products, 2);
    run_gate(p, w, &a);
    const ops_norm norm = {a.gated, w->norm_conv, e, streams, s->eps, a.normed};
    run_task(p, task_norm, &norm, p->tokens * streams, rows_grain(e));
    const batch_conv conv = {.weights = w->conv,
                             .taps = s->ngram.conv,
                             .dilation = s->ngram.size,
                             .channels = streams * e,
                             .state_offset = state_ngram_offset(s, layer),
                             .x = a.normed,
                             .out = a.conv};
    conv_batch(p, &conv);
    const ops_ngram_add add = {a.gated, a.conv, p->residual};
    run_task(p, task_ngram_add, &add, p->tokens * streams * e, rows_grain(1));
}
