/* SPDX-License-Identifier: Apache-2.0 */
/* The gated delta net (SPEC section 7). */
#ifndef QSA_ENGINE_MODEL_DELTA_H
#define QSA_ENGINE_MODEL_DELTA_H

#include "model/pass.h"

/* Reads p->x, writes p->y and the recurrent state of every session after these tokens. */
void delta_layer(pass *p, uint32_t layer);

size_t delta_scratch_bytes(const model_shape *shape, size_t tokens);
size_t delta_blocks_bytes(const delta_weights *weights, size_t tokens);

#endif
