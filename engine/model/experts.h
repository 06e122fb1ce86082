/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture of experts (SPEC section 7): softmax router, the best few experts renormalised, and the shared one. */
#ifndef QSA_ENGINE_MODEL_EXPERTS_H
#define QSA_ENGINE_MODEL_EXPERTS_H

#include "model/pass.h"

/* Reads the first `tokens` rows of p->x, writes those of p->y. */
void experts_layer(pass *p, uint32_t layer, size_t tokens);

/* A pair is a token with one of its experts: pair token * used + rank. A place is a pair's index in order of expert;
 * pairs of one expert keep their order. */
typedef struct grouping {
    uint32_t *first;  /* [experts + 1]: expert e has the places first[e] .. first[e + 1] - 1 */
    uint32_t *column; /* [pairs]: the token of the pair at each place */
    int32_t *place;   /* [pairs] of each pair */
} grouping;

/* chosen [pairs], each below `experts`. */
void experts_group(const int32_t *chosen, size_t pairs, size_t used, size_t experts, const grouping *out);

size_t experts_scratch_bytes(const model_shape *shape, size_t tokens);
size_t experts_blocks_bytes(const model_shape *shape, const expert_weights *weights, size_t tokens);

#endif
