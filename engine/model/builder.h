/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a forward pass share while its graph is built. */
#ifndef QSA_ENGINE_MODEL_BUILDER_H
#define QSA_ENGINE_MODEL_BUILDER_H

#include "model/library.h"
#include "model/lone_product.h"
#include "model/part_clock.h"
#include "model/shape.h"
#include "model/weights.h"

#include <qsa_ggml.h>

/* The new tokens of one session: columns [first, first + tokens) of the batch, and its recurrent state before and after
 * them (state.h). */
typedef struct batch_segment {
    uint32_t first, tokens;
    const float *before;
    float *after;
} batch_segment;

/* How a batch is made up. Graphs read it when they run, so one graph serves any mix of as many tokens. */
typedef struct batch_layout {
    const batch_segment *segments;
    size_t count;
} batch_layout;

/* Bounds of what one layer adds to a graph: nodes with all their paddings and views, and parameters of custom nodes.
 * The largest layer has about 95 nodes and 600 bytes. */
enum { LAYER_NODES = 128, LAYER_PARAMS_BYTES = 2048 };

typedef struct graph_builder {
    const model_shape *shape;
    const model_weights *weights;
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    const batch_layout *layout;
    uint32_t tokens;
    lone_products *products; /* one for each thread of the graph */
    part_clock *clock;       /* NULL: nobody takes the time */
    unsigned char *params;   /* of the custom nodes: must live as long as the graph */
    size_t params_used, params_bytes;
    struct ggml_tensor *repeated_from, *repeated; /* the last x that had too few columns, and what stands for it */
} graph_builder;

/* Copies a custom node's parameters to where they live as long as the graph. */
void *keep_params(graph_builder *b, const void *params, size_t bytes);

/* weights {n, m} times x [n, tokens] = [m, tokens]; x contiguous. A token's result is the same bits whatever the other
 * tokens are. */
struct ggml_tensor *matrix_product(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *x);

/* What was built so far up to `done` is complete when what is built from here on, which belongs to `next`, begins. */
void next_part(graph_builder *b, struct ggml_tensor *done, qsa_model_part next);

/* A node of our own: f32 [n0, n1, n2], computed from sources by all threads. */
struct ggml_tensor *custom_node(graph_builder *b, int64_t n0, int64_t n1, int64_t n2, struct ggml_tensor **sources,
                                int source_count, ggml_custom_op_t run, void *params);

#endif
