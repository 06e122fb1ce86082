/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a byte-level vocabulary, decoded to bytes.
 *
 * A model file writes an ordinary token in the byte-level alphabet of GPT-2: a printable Latin-1 character stands for
 * its own byte; the other 68 bytes, in ascending order, are written as U+0100, U+0101 and so on. Special tokens
 * (control and user-defined) are written literally. */
#ifndef QSA_ENGINE_TEXT_VOCABULARY_H
#define QSA_ENGINE_TEXT_VOCABULARY_H

#include "text/tokenizer_types.h"

#include <qsa/status.h>

/* Token types, as GGUF numbers them. */
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
    char *bytes;              /* of all tokens, concatenated */
    size_t *begins;           /* [count + 1]: token i is bytes [begins[i], begins[i + 1]) */
    uint8_t *types;           /* [count] */
    int32_t byte_tokens[256]; /* the ordinary token of each byte */
    size_t longest_bytes;     /* of the longest token */
} vocabulary;

/* Errors: those of tokenizer_create about tokens and types. Release also after a failure. */
qsa_status vocabulary_init(vocabulary *words, const tokenizer_input *input);
void vocabulary_release(vocabulary *words);

/* For 0 <= id < count. */
text_span vocabulary_token(const vocabulary *words, int32_t id);
bool vocabulary_is_special(const vocabulary *words, int32_t id);

/* A hash index of ordinary tokens by their bytes; of duplicates it has the lowest id. Only needed to read the merges.
 */
typedef struct vocabulary_index {
    const vocabulary *words;
    int32_t *slots; /* open addressing; -1: free */
    size_t slot_count;
} vocabulary_index;

/* The vocabulary must outlive the index. Errors: QSA_E_MEMORY. Release also after a failure. */
qsa_status vocabulary_index_init(vocabulary_index *index, const vocabulary *words);
void vocabulary_index_release(vocabulary_index *index);
/* false: no ordinary token has these bytes. */
bool vocabulary_find(const vocabulary_index *index, const char *bytes, size_t count, int32_t *out_id);

/* Decodes text in the byte-level alphabet; false: it has characters outside it. out has room for count bytes. */
bool alphabet_decode(const char *text, size_t count, char *out, size_t *out_count);

#endif
