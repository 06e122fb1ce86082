/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that end a text: those that the file's keys name, and special tokens whose text is known to end one. */
#ifndef QSA_ENGINE_TEXT_ENDS_H
#define QSA_ENGINE_TEXT_ENDS_H

#include "text/vocabulary.h"

typedef struct end_set {
    int32_t *ids; /* [count], ascending, each once */
    size_t count;
} end_set;

/* Errors: QSA_E_FORMAT (an id outside the vocabulary), QSA_E_MEMORY. Release also after a failure. */
qsa_status end_set_init(end_set *set, const vocabulary *words, const tokenizer_input *input);
void end_set_release(end_set *set);

#endif
