/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-level BPE: text to token ids and back.
 *
 * Encoding: special tokens are split off where the caller asks for it (leftmost first, then longest). The text between
 * them is normalised to NFC, the pre-tokenizer splits it into pieces, and the bytes of each piece are merged: lowest
 * rank first, at equal rank leftmost first.
 * Invalid UTF-8 passes through unchanged: a run of invalid bytes is a piece of its own, and the text before and after
 * it is normalised and split separately. So decode(encode(text)) is always the NFC of the text.
 *
 * A tokenizer is immutable: any number of threads may use it concurrently. It keeps no pointer to its input.
 * Errors leave their line in engine_error_detail(). */
#ifndef QSA_ENGINE_TEXT_TOKENIZER_H
#define QSA_ENGINE_TEXT_TOKENIZER_H

#include "text/tokenizer_types.h"

#include <qsa/status.h>

typedef struct tokenizer tokenizer;

/* Corner cases of a vocabulary:
 * - Duplicate tokens: encoding uses the lowest id; all of them decode. Duplicate merges: the first counts.
 * - Types 1 and 6 are ordinary, written in the byte-level alphabet (vocabulary.h). An ordinary token with characters
 *   outside the alphabet decodes to its bytes as written and is never encoded. An empty token is never encoded.
 * - Types 3 and 4 are special: encoded only where special tokens are recognised. Type 2 is never encoded. All three
 *   decode to their bytes as written. Type 5 is never encoded and decodes to nothing.
 * Errors: QSA_E_UNSUPPORTED (unknown pre-tokenizer, named), QSA_E_FORMAT (unknown token type; one of the 256 bytes has
 * no token; malformed merge, or one whose parts or result are not ordinary tokens; bos, eos or an end outside the
 * vocabulary; add_bos without bos, add_eos without eos), QSA_E_LIMIT, QSA_E_MEMORY. */
qsa_status tokenizer_create(const tokenizer_input *input, tokenizer **out_tokenizer);
void tokenizer_destroy(tokenizer *tokens); /* NULL is legal */

size_t tokenizer_count(const tokenizer *tokens);
/* Decoded bytes of the longest token. */
size_t tokenizer_longest_bytes(const tokenizer *tokens);

/* true: a text must begin with *out_id. tokenizer_encode does not add it, because a prompt may arrive in parts. */
bool tokenizer_begins_with(const tokenizer *tokens, int32_t *out_id);
/* true: a text must end with *out_id, which tokenizer_encode does not add either. */
bool tokenizer_closes_with(const tokenizer *tokens, int32_t *out_id);
/* true: *out_id is the file's end of text. */
bool tokenizer_ends_with(const tokenizer *tokens, int32_t *out_id);
/* All tokens that end a text, ascending: [*out_count]. They belong to the tokenizer. */
const int32_t *tokenizer_ends(const tokenizer *tokens, size_t *out_count);

/* Whether the token is a control token: what it decodes to is markup, not text. False outside the vocabulary. */
bool tokenizer_is_control(const tokenizer *tokens, int32_t id);

/* Time O(n log n), memory O(n). The caller frees *out_ids [*out_count], also if the text is empty.
 * Errors: QSA_E_LIMIT (text size; a limit of PCRE2, with its message), QSA_E_MEMORY. */
qsa_status tokenizer_encode(const tokenizer *tokens, const char *text, size_t count, tokenizer_specials recognised,
                            int32_t **out_ids, size_t *out_count);

/* The bytes of one token; they may be part of a character. *out_bytes belongs to the tokenizer.
 * Errors: QSA_E_ARGUMENT (id outside the vocabulary). */
qsa_status tokenizer_token_bytes(const tokenizer *tokens, int32_t id, const char **out_bytes, size_t *out_count);

/* The bytes of a sequence of tokens. The caller frees *out_bytes, also if it is empty. Errors: QSA_E_ARGUMENT (an id
 * outside the vocabulary; names its index), QSA_E_MEMORY. */
qsa_status tokenizer_decode(const tokenizer *tokens, const int32_t *ids, size_t count, char **out_bytes,
                            size_t *out_count);

#endif
