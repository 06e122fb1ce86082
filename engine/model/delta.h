/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net (SPEC section 7). */
#ifndef QSA_ENGINE_MODEL_DELTA_H
#define QSA_ENGINE_MODEL_DELTA_H

#include "model/builder.h"

/* x [E, tokens] to the layer's output [E, tokens]; moves the recurrent state of every session on. */
struct ggml_tensor *delta_layer(graph_builder *b, uint32_t layer, struct ggml_tensor *x);

#endif
