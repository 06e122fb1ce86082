/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture of experts (SPEC section 7): softmax router, the best few experts renormalised, and the shared one. */
#ifndef QSA_ENGINE_MODEL_EXPERTS_H
#define QSA_ENGINE_MODEL_EXPERTS_H

#include "model/builder.h"

/* x [E, tokens] to [E, tokens]. */
struct ggml_tensor *experts_layer(graph_builder *b, uint32_t layer, struct ggml_tensor *x);

/* The n largest of probabilities [count], in descending order; of equal ones the lowest index goes first. */
void experts_choose(const float *probabilities, size_t count, int32_t *out_chosen, size_t n);

#endif
