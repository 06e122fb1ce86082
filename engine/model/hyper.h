/* SPDX-License-Identifier: Apache-2.0 */
/* Hyper-connections: the residual R [T][streams][E], what reads it and what adds to it (SPEC section 7).
 *
 *     n = RMSNorm of each stream;  m = sigmoid(U silu((D n) / streams));  x = mean over streams of m * n
 *     g = 2 sigmoid((J n) / streams);  R[s] += g[s] * y */
#ifndef QSA_ENGINE_MODEL_HYPER_H
#define QSA_ENGINE_MODEL_HYPER_H

#include "model/pass.h"

/* Computes p->x and, if there is an inject matrix, p->gains from the first `tokens` tokens of p->residual. */
void hyper_read(pass *p, const hyper_weights *weights, size_t tokens);

/* Adds p->y times the gains to the residual. */
void hyper_write(pass *p, size_t tokens);

size_t hyper_scratch_bytes(const model_shape *shape, size_t tokens);
size_t hyper_blocks_bytes(const hyper_weights *weights, size_t tokens);

#endif
