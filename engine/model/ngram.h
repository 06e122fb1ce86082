/* SPDX-License-Identifier: Apache-2.0 */
/* The n-gram embedding (SPEC section 7, PLE): table rows chosen by hashes of the last tokens, added to the residual. */
#ifndef QSA_ENGINE_MODEL_NGRAM_H
#define QSA_ENGINE_MODEL_NGRAM_H

#include "model/pass.h"

/* Rows of the table for one token: history[0] is the token, history[k] the k-th before it (EOS before the start).
 * out_rows [heads]: the 2-grams' heads, then the 3-grams', ... Everything at or before the last EOS ahead of the token
 * reads as EOS. */
void ngram_rows(const ngram_shape *shape, const int32_t *history, int32_t *out_rows);

/* Adds the embedding p->ngram to the residual. */
void ngram_layer(pass *p, uint32_t layer);

size_t ngram_scratch_bytes(const model_shape *shape, size_t tokens);
size_t ngram_blocks_bytes(const ngram_weights *weights, size_t tokens);

#endif
