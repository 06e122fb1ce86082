/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of this room share: limits, a stretch of text, and what a tokenizer is made from. */
#ifndef QSA_ENGINE_TEXT_TOKENIZER_TYPES_H
#define QSA_ENGINE_TEXT_TOKENIZER_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Beyond a limit: QSA_E_LIMIT. */
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

/* The tokenizer of a model file. Fields that a file lacks are 0. */
typedef struct tokenizer_input {
    const char *pre;         /* kind of pre-tokenizer: "qwen35" or "qwen2" */
    const text_span *tokens; /* [token_count], indexed by token id */
    const int32_t *types;    /* [token_count]: the token types of vocabulary.h; NULL: all TOKEN_NORMAL */
    size_t token_count;
    const text_span *merges; /* [merge_count], by rank: two ordinary tokens with one space between them */
    size_t merge_count;
    bool has_bos, has_eos;
    int32_t bos, eos;    /* valid if has_bos, has_eos */
    const int32_t *ends; /* [end_count]: further tokens that end a text, in any order */
    size_t end_count;
    bool add_bos, add_eos; /* a text begins with bos, ends with eos */
} tokenizer_input;

/* Which special tokens are recognised in a text. For untrusted text use NONE: otherwise its author could end a turn or
 * begin another. (The reference and other engines recognise user-defined tokens in any text.) */
typedef enum tokenizer_specials {
    TOKENIZER_SPECIALS_NONE,
    TOKENIZER_SPECIALS_ALL,         /* control and user-defined tokens */
    TOKENIZER_SPECIALS_USER_DEFINED /* user-defined tokens only */
} tokenizer_specials;

#endif
