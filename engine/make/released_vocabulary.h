/* SPDX-License-Identifier: Apache-2.0 */
/* A byte-level vocabulary of any size: every text has tokens, and merging has work to do.
 *
 * Tokens 0 .. 255 are the bytes. Token 256 + k is token k / 256 followed by the byte k mod 256: all pairs of bytes,
 * then threes. Each is a merge of its two parts, in this order. The last RELEASED_SPECIALS tokens are no text. */
#ifndef QSA_ENGINE_MAKE_RELEASED_VOCABULARY_H
#define QSA_ENGINE_MAKE_RELEASED_VOCABULARY_H

#include <gguf.h>
#include <qsa/status.h>

uint32_t released_end_of_text(uint32_t vocabulary);

/* Errors: QSA_E_MEMORY. */
qsa_status released_set_vocabulary(uint32_t vocabulary, struct gguf_context *file);

#endif
