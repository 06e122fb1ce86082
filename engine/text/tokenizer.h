/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-level BPE: text to token ids and back.
 *
 * Encoding: special tokens are cut out where the caller says so (leftmost first, then longest). What lies between is
 * normalised to NFC, cut into pieces by the pre-tokenizer, and the bytes of each piece are merged, the earliest rule
 * first, then the leftmost place.
 * Bytes that are not UTF-8 pass through unchanged: a run of them is a piece of its own, and the text before and after
 * it is normalised and cut separately. So decoding gives back the NFC of the text, always.
 *
 * A tokenizer is read-only after it was made: any number of threads may use it at one time. It keeps nothing of what it
 * was made from. Errors leave their line in engine_error_detail(). */
#ifndef QSA_ENGINE_TEXT_TOKENIZER_H
#define QSA_ENGINE_TEXT_TOKENIZER_H

#include <qsa/status.h>
#include <stdbool.h>

/* Stated limits; beyond them QSA_E_LIMIT. */
enum {
    TOKENIZER_MAX_TOKENS = 1 << 24,
    TOKENIZER_MAX_MERGES = 1 << 24,
    TOKENIZER_MAX_TOKEN_BYTES = 65535,
    TOKENIZER_MAX_TEXT_BYTES = 1 << 30
};

typedef struct text_span {
    const char *bytes; /* not terminated */
    size_t count;
} text_span;

/* What a model file says. All zeros is a legal beginning. */
typedef struct tokenizer_input {
    const char *pre;         /* kind of pre-tokenizer: "qwen35" or "qwen2" */
    const text_span *tokens; /* [token_count], token id = index */
    const int32_t
        *types; /* [token_count]: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; NULL: all 1 */
    size_t token_count;
    const text_span
        *merges; /* [merge_count]: two ordinary tokens and one space between them; the earliest goes first */
    size_t merge_count;
    bool has_bos, has_eos;
    int32_t bos, eos; /* where has_ says so */
    bool add_bos;     /* a text begins with bos */
} tokenizer_input;

typedef struct tokenizer tokenizer;

/* Rules for odd vocabularies:
 * - Of equal tokens the lowest id is used in encoding; all of them decode. Of equal merges the first counts.
 * - Types 1 and 6 are ordinary, written in the byte-level alphabet (vocabulary.h). One that is not written so decodes
 *   to its bytes as they are and is never encoded; nor is an empty token.
 * - Types 3 and 4 are special: encoded only where special tokens are recognised; type 2 is never encoded. All three
 *   decode to their bytes as they are. Type 5 is never encoded and decodes to nothing.
 * Errors: QSA_E_UNSUPPORTED (another pre-tokenizer, by name), QSA_E_FORMAT (an unknown type; one of the 256 bytes
 * without a token; a merge of another form, or whose parts or result are no ordinary tokens; bos or eos outside the
 * vocabulary; add_bos without bos), QSA_E_LIMIT, QSA_E_MEMORY. */
qsa_status tokenizer_create(const tokenizer_input *input, tokenizer **out_tokenizer);
void tokenizer_destroy(tokenizer *tokens);

size_t tokenizer_count(const tokenizer *tokens);
/* Bytes of the longest token, decoded. */
size_t tokenizer_longest_bytes(const tokenizer *tokens);

/* true: a text has to begin with *out_id. tokenizer_encode does not put it there, as a prompt may come in parts. */
bool tokenizer_begins_with(const tokenizer *tokens, int32_t *out_id);
/* true: *out_id ends a text. */
bool tokenizer_ends_with(const tokenizer *tokens, int32_t *out_id);

/* Which special tokens are recognised in a text. Text that is not the caller's own should have none: whoever wrote it
 * could end a turn or open another. (The reference and other engines recognise user-defined tokens in any text.) */
typedef enum tokenizer_specials {
    TOKENIZER_SPECIALS_NONE,
    TOKENIZER_SPECIALS_ALL,         /* types 3 and 4 */
    TOKENIZER_SPECIALS_USER_DEFINED /* type 4 only */
} tokenizer_specials;

/* Time O(n log n), memory O(n). *out_ids [*out_count] is the caller's to free(), also if the text is empty.
 * Errors: QSA_E_LIMIT (the text's size; a limit of PCRE2, with its message), QSA_E_MEMORY. */
qsa_status tokenizer_encode(const tokenizer *tokens, const char *text, size_t count, tokenizer_specials recognised,
                            int32_t **out_ids, size_t *out_count);

/* Bytes of one token; they may cut a character. *out_bytes belongs to the tokenizer.
 * Errors: QSA_E_ARGUMENT (no token of this vocabulary). */
qsa_status tokenizer_token_bytes(const tokenizer *tokens, int32_t id, const char **out_bytes, size_t *out_count);

/* Bytes of a sequence. *out_bytes is the caller's to free(), also if it is empty. Errors: QSA_E_ARGUMENT (naming the
 * index of an id that is no token), QSA_E_MEMORY. */
qsa_status tokenizer_decode(const tokenizer *tokens, const int32_t *ids, size_t count, char **out_bytes,
                            size_t *out_count);

#endif
