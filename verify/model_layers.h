/* SPDX-License-Identifier: Apache-2.0 */
/* The interface to libqsa in a recorded case of a whole model: compares the projections, selections and outputs of
 * every QSA layer while the model runs. */
#ifndef QSA_VERIFY_MODEL_LAYERS_H
#define QSA_VERIFY_MODEL_LAYERS_H

#include "verify/model_case.h"

/* A tap (qsa_engine.h); its user is the model_case, whose sequences describe the running batch. */
void model_layers_compare(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                          const qsa_output *output, const qsa_step *step);

#endif
