/* SPDX-License-Identifier: Apache-2.0 */
/* Finding special tokens in text. */
#ifndef QSA_ENGINE_TEXT_SPECIALS_H
#define QSA_ENGINE_TEXT_SPECIALS_H

#include "text/tokenizer_types.h"
#include "text/vocabulary.h"

typedef struct special_token {
    text_span text;
    int32_t id;
    bool is_control;
} special_token;

typedef struct specials {
    special_token *tokens; /* sorted by bytes, then by id */
    size_t count;
    bool begins[256]; /* indexed by byte: some token begins with it */
} specials;

/* The set points into the vocabulary, which must outlive it. Errors: QSA_E_MEMORY. Release also after a failure. */
qsa_status specials_init(specials *set, const vocabulary *words);
void specials_release(specials *set);

/* The leftmost recognised token at or after byte `from`; of several at the same byte the longest. *out_at is its first
 * byte. NULL: there is none, and *out_at is unchanged. */
const special_token *specials_find(const specials *set, tokenizer_specials recognised, text_span text, size_t from,
                                   size_t *out_at);

#endif
