/* SPDX-License-Identifier: Apache-2.0 */
/* Finding special tokens in text. */
#ifndef QSA_ENGINE_TEXT_SPECIALS_H
#define QSA_ENGINE_TEXT_SPECIALS_H

#include "text/vocabulary.h"

typedef struct special_token {
    text_span text;
    int32_t id;
    bool is_control;
} special_token;

typedef struct specials {
    special_token *tokens; /* sorted by bytes, then by id */
    size_t count;
    bool begins[256]; /* some token begins with this byte */
} specials;

/* The texts stay the vocabulary's. Errors: QSA_E_MEMORY. Release also after a failure. */
qsa_status specials_init(specials *set, const vocabulary *words);
void specials_release(specials *set);

/* The first recognised token at or after byte `from`, of those that begin there the longest; *out_at says where. NULL:
 * none, *out_at stays. */
const special_token *specials_find(const specials *set, tokenizer_specials recognised, text_span text, size_t from,
                                   size_t *out_at);

#endif
