/* SPDX-License-Identifier: Apache-2.0 */
/* A QSA layer (SPEC section 7): projections, libqsa's step, output gate and projection. */
#ifndef QSA_ENGINE_MODEL_ATTENTION_H
#define QSA_ENGINE_MODEL_ATTENTION_H

#include "model/pass.h"

/* Reads p->x, writes p->y. Errors: those of libqsa's phases, with their detail. */
qsa_status attention_layer(pass *p, uint32_t layer);

/* The same for tokens without output: they only update the cache. */
qsa_status attention_store(pass *p, uint32_t layer);

size_t attention_scratch_bytes(const model_shape *shape, size_t tokens);
size_t attention_blocks_bytes(const attention_weights *weights, size_t tokens);

#endif
