/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people, token by token: whole characters only. A character that tokens cut is held back until it is
 * complete; bytes that are none are shown as U+FFFD, one for each maximal subpart. */
#ifndef QSA_ENGINE_TEXT_DECODER_H
#define QSA_ENGINE_TEXT_DECODER_H

#include "text/tokenizer.h"

typedef struct text_decoder text_decoder;

/* The tokenizer must outlive the decoder. Errors: QSA_E_MEMORY. */
qsa_status text_decoder_create(const tokenizer *tokens, text_decoder **out_decoder);
void text_decoder_destroy(text_decoder *decoder);

/* The text that is complete with this token, perhaps none. *out_text belongs to the decoder, until its next call, and
 * is not terminated. Errors: QSA_E_ARGUMENT (no token of the vocabulary). */
qsa_status text_decoder_push(text_decoder *decoder, int32_t id, const char **out_text, size_t *out_count);

/* The end of the text: what is held back comes out as U+FFFD. The decoder is ready for another text. */
void text_decoder_finish(text_decoder *decoder, const char **out_text, size_t *out_count);

#endif
