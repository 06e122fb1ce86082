/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming detokenization: emits whole characters only. A character split across tokens is held back until it is
 * complete; invalid UTF-8 becomes U+FFFD, one per maximal subpart. */
#ifndef QSA_ENGINE_TEXT_DECODER_H
#define QSA_ENGINE_TEXT_DECODER_H

#include "text/tokenizer.h"

typedef struct text_decoder text_decoder;

/* The tokenizer must outlive the decoder. Errors: QSA_E_MEMORY. */
qsa_status text_decoder_create(const tokenizer *tokens, text_decoder **out_decoder);
void text_decoder_destroy(text_decoder *decoder); /* NULL is legal */

/* Decodes one token: *out_text [*out_count] is the text that is now complete, possibly empty. It is not terminated and
 * valid until the next call on this decoder. Errors: QSA_E_ARGUMENT (id outside the vocabulary). */
qsa_status text_decoder_push(text_decoder *decoder, int32_t id, const char **out_text, size_t *out_count);

/* Ends the text: held-back bytes are emitted as U+FFFD. The decoder is ready for another text. */
void text_decoder_finish(text_decoder *decoder, const char **out_text, size_t *out_count);

#endif
