/* SPDX-License-Identifier: Apache-2.0 */
/* Hyper-connections: the residual R [E, streams, tokens] and what reads from it and adds to it (SPEC section 7).
 *
 *     n = RMSNorm of each stream;  m = sigmoid(U silu((D n) / streams));  x = mean over streams of m * n
 *     g = 2 sigmoid((J n) / streams);  R[s] += g[s] * y */
#ifndef QSA_ENGINE_MODEL_HYPER_H
#define QSA_ENGINE_MODEL_HYPER_H

#include "model/builder.h"

/* What a sub-layer reads. */
typedef struct hyper_input {
    struct ggml_tensor *x;     /* [E, tokens] */
    struct ggml_tensor *gains; /* [streams, tokens], before the sigmoid; NULL for the head */
} hyper_input;

hyper_input hyper_read(graph_builder *b, const hyper_weights *weights, struct ggml_tensor *residual);

/* R plus the sub-layer's output y [E, tokens] times the gains; in place. */
struct ggml_tensor *hyper_write(graph_builder *b, struct ggml_tensor *residual, const hyper_input *input,
                                struct ggml_tensor *y);

/* RMSNorm of each stream of x [E, streams, tokens] times weights [streams * E]; result [streams * E, tokens]. */
struct ggml_tensor *norm_streams(graph_builder *b, const float *weights, struct ggml_tensor *x);

#endif
