/* SPDX-License-Identifier: Apache-2.0 */
/* What hyper_read (hyper.h) computes, for a low rank: two nodes of our own, which read the residual as it is.
 *
 * ggml's products are at their worst here: with few rows each column is read for little, and with a short inner
 * dimension the time goes into adding up lanes and writing the wide result. And what lies between would be written and
 * read again several times, at four streams a token. */
#ifndef QSA_ENGINE_MODEL_HYPER_LOW_H
#define QSA_ENGINE_MODEL_HYPER_LOW_H

#include "model/hyper.h"

/* Up to this rank. */
enum { SHORT_RANK = 64 };

/* U with its rows in the lanes: up {low rank, streams * E} as [streams][E / TURNED][low rank][TURNED], rounded up and
 * filled with zeros. */
enum { TURNED = 64 };

size_t hyper_turned_floats(const model_shape *shape);
void hyper_turn(const model_shape *shape, const float *up, float *out);

/* weights->up_turned is not NULL. */
hyper_input hyper_read_low(graph_builder *b, const hyper_weights *weights, struct ggml_tensor *residual);

#endif
