/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-tokenizer: cuts text into the pieces inside which bytes are merged. */
#ifndef QSA_ENGINE_TEXT_PIECES_H
#define QSA_ENGINE_TEXT_PIECES_H

#include "text/tokenizer.h"

typedef struct pre_tokenizer pre_tokenizer;
typedef struct piece_matcher piece_matcher; /* one thread's working memory */

/* Errors: QSA_E_UNSUPPORTED (a kind other than "qwen35" and "qwen2", by name), QSA_E_MEMORY. */
qsa_status pre_tokenizer_create(const char *kind, pre_tokenizer **out_pre);
void pre_tokenizer_destroy(pre_tokenizer *pre);

qsa_status piece_matcher_create(const pre_tokenizer *pre, piece_matcher **out_matcher);
void piece_matcher_destroy(piece_matcher *matcher);

/* The end of the piece that begins at byte begin < text.count of valid UTF-8. Errors: QSA_E_LIMIT, QSA_E_MEMORY. */
qsa_status piece_matcher_next(piece_matcher *matcher, text_span text, size_t begin, size_t *out_end);

#endif
