/* SPDX-License-Identifier: Apache-2.0 */
#include "model/graph.h"

#include "base/error.h"
#include "model/delta.h"
#include "model/experts.h"
#include "model/hyper.h"
#include "model/ngram.h"

enum { OTHER_NODES = 64 };

size_t graph_nodes(const model_shape *shape)
{
    return (size_t)shape->layers * LAYER_NODES + OTHER_NODES;
}

size_t graph_params_bytes(const model_shape *shape)
{
    return (size_t)(shape->layers + 1) * LAYER_PARAMS_BYTES;
}

static struct ggml_tensor *input_ids(graph_builder *b, int64_t n)
{
    struct ggml_tensor *ids = ggml_new_tensor_1d(b->context, GGML_TYPE_I32, n);
    ggml_set_input(ids);
    return ids;
}

/* The embedding, in every stream: [E, streams, tokens]. */
static struct ggml_tensor *first_residual(graph_builder *b, struct ggml_tensor *tokens)
{
    const int64_t e = b->shape->embedding;
    struct ggml_tensor *x = ggml_get_rows(b->context, b->weights->embedding, tokens);
    x = ggml_reshape_3d(b->context, x, e, 1, b->tokens);
    return ggml_repeat_4d(b->context, x, e, b->shape->streams, b->tokens, 1);
}

static void add_ngram_input(graph_builder *b, struct ggml_tensor *residual, forward_graph *g)
{
    if (b->weights->ngram_rows == NULL)
        return;
    next_part(b, residual, QSA_PART_NGRAM);
    g->ngram_rows = input_ids(b, (int64_t)b->shape->ngram.heads * b->tokens);
    struct ggml_tensor *rows = ggml_get_rows(b->context, b->weights->ngram_rows, g->ngram_rows);
    g->ngram = ggml_reshape_2d(b->context, rows, b->shape->embedding, b->tokens);
    ggml_build_forward_expand(b->graph, g->ngram);
}

/* What a sub-layer, which is part `next`, reads of the residual. */
static hyper_input read_for(graph_builder *b, const hyper_weights *weights, struct ggml_tensor *residual,
                            qsa_model_part next)
{
    const hyper_input input = hyper_read(b, weights, residual);
    ggml_build_forward_expand(b->graph, input.x);
    next_part(b, input.gains, next);
    return input;
}

/* y [E, tokens] of a layer's delta net or attention; NULL where its states were all that was wanted. */
static qsa_status add_mixer(graph_builder *b, qsa_ggml_pass *pass, const tap_point *tap, uint32_t layer,
                            bool states_only, struct ggml_tensor *x, struct ggml_tensor **out_y)
{
    *out_y = NULL;
    if (b->shape->kinds[layer] == LAYER_DELTA_NET) {
        *out_y = delta_layer(b, layer, x);
        return QSA_OK;
    }
    if (states_only && tap->tap == NULL)
        return attention_store(b, pass, layer, x);
    return attention_layer(b, pass, tap, layer, x, out_y);
}

/* Columns of the wanted tokens; t [n, tokens]. */
static struct ggml_tensor *wanted_of(graph_builder *b, struct ggml_tensor *t, const forward_graph *g)
{
    return ggml_get_rows(b->context, t, g->wanted);
}

/* From here on the residual, the gains and y of a layer are those of the wanted tokens. */
static void narrow(graph_builder *b, const forward_graph *g, struct ggml_tensor **residual, hyper_input *input,
                   struct ggml_tensor **y)
{
    const int64_t e = b->shape->embedding, streams = b->shape->streams;
    struct ggml_tensor *rows = ggml_reshape_2d(b->context, *residual, e * streams, b->tokens);
    *residual = ggml_reshape_3d(b->context, wanted_of(b, rows, g), e, streams, g->wanted->ne[0]);
    input->gains = wanted_of(b, input->gains, g);
    *y = wanted_of(b, *y, g);
}

/* wanted: of the last layer, how many tokens anything depends on; of others b->tokens. */
static qsa_status add_layer(graph_builder *b, qsa_ggml_pass *pass, const tap_point *tap, uint32_t layer,
                            uint32_t wanted, const forward_graph *g, struct ggml_tensor **residual)
{
    const layer_weights *w = &b->weights->layers[layer];
    const bool is_qsa = b->shape->kinds[layer] == LAYER_QSA;
    struct ggml_tensor *r = *residual, *y = NULL;
    if (b->shape->has_ngram[layer]) {
        next_part(b, r, QSA_PART_NGRAM);
        r = ngram_layer(b, layer, r, g->ngram);
    }
    next_part(b, r, QSA_PART_HYPER);
    hyper_input mixer = read_for(b, &w->hyper_mixer, r, is_qsa ? QSA_PART_QSA_PROJECTIONS : QSA_PART_DELTA);
    ENGINE_TRY(add_mixer(b, pass, tap, layer, wanted == 0, mixer.x, &y));
    if (y == NULL)
        return QSA_OK;
    next_part(b, y, QSA_PART_HYPER);
    if (wanted == 0)
        return QSA_OK;
    if (wanted < b->tokens)
        narrow(b, g, &r, &mixer, &y);
    r = hyper_write(b, r, &mixer, y);
    const hyper_input experts = read_for(b, &w->hyper_experts, r, QSA_PART_EXPERTS);
    y = experts_layer(b, layer, experts.x);
    next_part(b, y, QSA_PART_HYPER);
    *residual = hyper_write(b, r, &experts, y);
    return QSA_OK;
}

/* Final mixer and output matrix; residual of the wanted tokens. */
static void add_head(graph_builder *b, struct ggml_tensor *residual, forward_graph *g)
{
    const hyper_input last = hyper_read(b, &b->weights->hyper_head, residual);
    next_part(b, last.x, QSA_PART_HEAD);
    g->logits = matrix_product(b, b->weights->output, last.x);
    ggml_set_output(g->logits);
    ggml_build_forward_expand(b->graph, g->logits);
}

qsa_status graph_build(graph_builder *b, qsa_ggml_pass *pass, const tap_point *tap, uint32_t wanted,
                       forward_graph *out_graph)
{
    const uint32_t last = b->shape->layers - 1;
    forward_graph g = {.query_layers = b->shape->qsa_layers};
    g.query_layers -= wanted == 0 && tap->tap == NULL && b->shape->kinds[last] == LAYER_QSA;
    g.tokens = input_ids(b, b->tokens);
    g.wanted = wanted == 0 ? NULL : input_ids(b, wanted);
    next_part(b, g.tokens, QSA_PART_EMBEDDING);
    struct ggml_tensor *residual = first_residual(b, g.tokens);
    add_ngram_input(b, residual, &g);
    for (uint32_t layer = 0; layer <= last; layer++)
        ENGINE_TRY(add_layer(b, pass, tap, layer, layer == last ? wanted : b->tokens, &g, &residual));
    if (wanted > 0)
        add_head(b, residual, &g);
    *out_graph = g;
    return QSA_OK;
}
