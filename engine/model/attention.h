/* SPDX-License-Identifier: Apache-2.0 */
/* A QSA layer (SPEC section 7): projections, libqsa through its adapter, output gate and projection. */
#ifndef QSA_ENGINE_MODEL_ATTENTION_H
#define QSA_ENGINE_MODEL_ATTENTION_H

#include "model/builder.h"

#include <qsa_engine.h>

/* Where the public tap hangs; lives until the graph has run. */
typedef struct tap_point {
    const qsa_tap *tap; /* NULL: none */
    qsa_step *const *step;
} tap_point;

/* x [E, tokens] to *out_y [E, tokens]. Errors: those of qsa_ggml_layer. */
qsa_status attention_layer(graph_builder *b, qsa_ggml_pass *pass, const tap_point *tap, uint32_t layer,
                           struct ggml_tensor *x, struct ggml_tensor **out_y);

/* The same for tokens of whose output nothing depends: they are stored, no more. Adds the layer to the graph. */
qsa_status attention_store(graph_builder *b, qsa_ggml_pass *pass, uint32_t layer, struct ggml_tensor *x);

#endif
