/* SPDX-License-Identifier: Apache-2.0 */
/* The recurrent state of one token list, all layers: what delta nets, convolutions and the n-gram history carry from
 * token to token. Its size does not depend on the number of tokens.
 *
 * Layout of the floats, layer by layer: a delta net's convolution tail [taps - 1][channels], oldest token first, then
 * its matrices [value heads][D / 32][D of k][32 of v] (if D is no multiple of 32, the last block is padded with columns
 * of zeros); an n-gram embedding's convolution tail [(taps - 1) * n-gram size][streams * E]. */
#ifndef QSA_ENGINE_MODEL_STATE_H
#define QSA_ENGINE_MODEL_STATE_H

#include "model/shape.h"

/* Offsets in floats from the start of the state. */
size_t state_conv_offset(const model_shape *shape, uint32_t layer);
size_t state_matrix_offset(const model_shape *shape, uint32_t layer);
size_t state_ngram_offset(const model_shape *shape, uint32_t layer);
size_t state_floats(const model_shape *shape);

#endif
