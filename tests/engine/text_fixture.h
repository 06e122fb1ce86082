/* SPDX-License-Identifier: Apache-2.0 */
/* Vocabularies for the tests of engine/text: one from a GGUF, and small ones made up line by line. */
#ifndef TEXT_FIXTURE_H
#define TEXT_FIXTURE_H

#include "text/tokenizer.h"

/* The tokenizer of a GGUF, read with ggml alone. Fails the test if that does not work. */
tokenizer *fixture_from_gguf(const char *path, const char *pre);

/* A vocabulary under construction. It begins with a token for each byte: id = byte. */
typedef struct fixture {
    tokenizer_input input; /* points into the arrays below; a test may change what it says */
    text_span *tokens;
    int32_t *types;
    text_span *merges;
} fixture;

void fixture_init(fixture *made);
void fixture_release(fixture *made);
/* Adds a token of a type as it is written, which must be a literal or live as long; returns its id. */
int32_t fixture_token(fixture *made, const char *text, int32_t type);
void fixture_merge(fixture *made, const char *text);
tokenizer *fixture_tokenizer(const fixture *made); /* fails the test if it is refused */

/* Fails the test unless encoding text gives ids [count]. */
void fixture_expect(const tokenizer *tokens, const char *text, size_t text_count, tokenizer_specials recognised,
                    const int32_t *ids, size_t count);

/* decode(encode(text)); free() it. */
char *fixture_round_trip(const tokenizer *tokens, const char *text, size_t count, tokenizer_specials recognised,
                         size_t *out_count);

#endif
