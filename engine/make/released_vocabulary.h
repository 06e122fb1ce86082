/* SPDX-License-Identifier: Apache-2.0 */
/* A byte-level vocabulary of any size that encodes every text and exercises merging.
 *
 * Tokens 0 .. 255 are the bytes. Token 256 + k is token k / 256 followed by byte k mod 256: all pairs of bytes, then
 * triples. Each is the merge of its two parts, by rank k. The last RELEASED_SPECIALS tokens are special. */
#ifndef QSA_ENGINE_MAKE_RELEASED_VOCABULARY_H
#define QSA_ENGINE_MAKE_RELEASED_VOCABULARY_H

#include <gguf.h>
#include <qsa/status.h>

/* The id of the end-of-text token. */
uint32_t released_end_of_text(uint32_t vocabulary);

/* Sets the tokenizer keys; vocabulary is at least RELEASED_MIN_VOCABULARY. Errors: QSA_E_MEMORY. */
qsa_status released_set_vocabulary(uint32_t vocabulary, struct gguf_context *file);

#endif
