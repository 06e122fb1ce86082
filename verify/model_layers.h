/* SPDX-License-Identifier: Apache-2.0 */
/* What crosses into libqsa in a recorded case of a whole model: the projections, the selections and the outputs of
 * every QSA layer, compared while the model is computed. */
#ifndef QSA_VERIFY_MODEL_LAYERS_H
#define QSA_VERIFY_MODEL_LAYERS_H

#include "verify/model_case.h"

/* A tap (qsa_engine.h); its user is the model_case, whose sequences say what the running batch holds. */
void model_layers_compare(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                          const qsa_output *output, const qsa_step *step);

#endif
