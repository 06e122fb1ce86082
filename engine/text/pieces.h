/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-tokenizer: splits text into pieces. Merges never cross a piece boundary. */
#ifndef QSA_ENGINE_TEXT_PIECES_H
#define QSA_ENGINE_TEXT_PIECES_H

#include "text/tokenizer_types.h"

#include <qsa/status.h>

typedef struct pre_tokenizer pre_tokenizer;
typedef struct piece_matcher piece_matcher; /* scratch memory of one thread */

/* kind: "qwen35" or "qwen2". Errors: QSA_E_UNSUPPORTED (another kind, named), QSA_E_MEMORY. */
qsa_status pre_tokenizer_create(const char *kind, pre_tokenizer **out_pre);
void pre_tokenizer_destroy(pre_tokenizer *pre);

/* The pre-tokenizer must outlive the matcher. Errors: QSA_E_MEMORY. */
qsa_status piece_matcher_create(const pre_tokenizer *pre, piece_matcher **out_matcher);
void piece_matcher_destroy(piece_matcher *matcher);

/* *out_end: the end of the piece that begins at byte `begin` of text, which is valid UTF-8; begin < text.count.
 * Errors: QSA_E_LIMIT (of PCRE2), QSA_E_MEMORY. */
qsa_status piece_matcher_next(piece_matcher *matcher, text_span text, size_t begin, size_t *out_end);

#endif
