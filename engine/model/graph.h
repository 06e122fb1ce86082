/* SPDX-License-Identifier: Apache-2.0 */
/* The whole forward pass as one graph (SPEC section 7). */
#ifndef QSA_ENGINE_MODEL_GRAPH_H
#define QSA_ENGINE_MODEL_GRAPH_H

#include "model/attention.h"
#include "model/builder.h"

/* Tensors that the caller fills after the graph was allocated, and reads after it ran. */
typedef struct forward_graph {
    struct ggml_tensor *tokens;     /* i32 [tokens] */
    struct ggml_tensor *ngram_rows; /* i32 [heads * tokens]; NULL without n-gram embedding */
    struct ggml_tensor *ngram;      /* [E, tokens] what the rows say */
    struct ggml_tensor *wanted;     /* i32 [wanted]: columns whose logits are computed; NULL: none */
    struct ggml_tensor *logits;     /* [vocabulary, wanted]; NULL: none */
    uint32_t query_layers;          /* QSA layers that the tokens ask, not only enter */
} forward_graph;

/* Nodes and tensors of a graph of this shape, at most. */
size_t graph_nodes(const model_shape *shape);
size_t graph_params_bytes(const model_shape *shape);

/* Builds the graph of b->tokens tokens into b->graph. Of the last layer it has only what the states of later tokens and
 * the wanted logits depend on; a tap sees all tokens in every layer. Errors: those of qsa_ggml_layer. */
qsa_status graph_build(graph_builder *b, qsa_ggml_pass *pass, const tap_point *tap, uint32_t wanted,
                       forward_graph *out_graph);

#endif
