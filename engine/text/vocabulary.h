/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a byte-level vocabulary, as bytes.
 *
 * An ordinary token is written in the byte-level alphabet: printable Latin-1 characters stand for their own byte, and
 * the other 68 bytes, in ascending order, are written as U+0100, U+0101 and so on. Special tokens (control and
 * user-defined) are written as they are. */
#ifndef QSA_ENGINE_TEXT_VOCABULARY_H
#define QSA_ENGINE_TEXT_VOCABULARY_H

#include "text/tokenizer.h"

#include <stdbool.h>

/* Token types of a GGUF. */
enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

typedef struct vocabulary {
    size_t count;
    char *bytes;              /* of all tokens, one after another */
    size_t *begins;           /* [count + 1]: token i is bytes [begins[i], begins[i + 1]) */
    uint8_t *types;           /* [count] */
    int32_t byte_tokens[256]; /* the ordinary token of each single byte */
    size_t longest_bytes;     /* of a token */
} vocabulary;

/* Errors: as tokenizer_create says of tokens and types. Release also after a failure. */
qsa_status vocabulary_init(vocabulary *words, const tokenizer_input *input);
void vocabulary_release(vocabulary *words);

text_span vocabulary_token(const vocabulary *words, int32_t id);
bool vocabulary_is_special(const vocabulary *words, int32_t id);

/* Finds ordinary tokens by their bytes, the lowest id where several have the same; needed only to read the merges. */
typedef struct vocabulary_index {
    const vocabulary *words;
    int32_t *slots; /* open addressing; -1: free */
    size_t slot_count;
} vocabulary_index;

qsa_status vocabulary_index_init(vocabulary_index *index, const vocabulary *words);
void vocabulary_index_release(vocabulary_index *index);
bool vocabulary_find(const vocabulary_index *index, const char *bytes, size_t count, int32_t *out_id);

/* Writes the bytes that a text in the byte-level alphabet stands for; false: it holds something else. out has room for
 * count bytes. */
bool alphabet_decode(const char *text, size_t count, char *out, size_t *out_count);

#endif
