/* SPDX-License-Identifier: Apache-2.0 */
#include "make/released_vocabulary.h"

#include "base/error.h"
#include "make/alphabet.h"
#include "make/released_plan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 256, NORMAL = 1, CONTROL = 3 };

/* A token of up to three bytes, a merge ("left right"), or a special token like "<|special_275|>". */
typedef struct word {
    char text[16];
} word;

typedef struct words {
    word *tokens, *merges;
    const char **lines; /* pointers to the tokens or merges, for gguf_set_arr_str */
    int32_t *types;
    uint32_t count, merge_count;
} words;

uint32_t released_end_of_text(uint32_t vocabulary)
{
    assert(vocabulary > RELEASED_SPECIALS);
    return vocabulary - RELEASED_SPECIALS;
}

static char *append_token(char *end, uint32_t token)
{
    assert(token < RELEASED_MAX_VOCABULARY);
    if (token < BYTES)
        return alphabet_append(end, token);
    end = append_token(end, (token - BYTES) / BYTES); /* one byte shorter: at most three levels */
    return alphabet_append(end, (token - BYTES) % BYTES);
}

static void write_text_tokens(words *w)
{
    for (uint32_t token = 0; token < BYTES + w->merge_count; token++)
        append_token(w->tokens[token].text, token);
    for (uint32_t k = 0; k < w->merge_count; k++) {
        char *end = append_token(w->merges[k].text, k / BYTES);
        *end++ = ' ';
        alphabet_append(end, k % BYTES);
    }
}

static void write_specials(words *w)
{
    const uint32_t first = BYTES + w->merge_count;
    assert(first + RELEASED_SPECIALS == w->count);
    snprintf(w->tokens[first].text, sizeof w->tokens[first].text, "<|endoftext|>");
    for (uint32_t i = 1; i < RELEASED_SPECIALS; i++)
        snprintf(w->tokens[first + i].text, sizeof w->tokens[first + i].text, "<|special_%" PRIu32 "|>", i);
}

static void set_strings(words *w, const word *strings, uint32_t n, const char *key, struct gguf_context *file)
{
    assert(n <= w->count);
    for (uint32_t i = 0; i < n; i++)
        w->lines[i] = strings[i].text;
    gguf_set_arr_str(file, key, w->lines, n);
}

static void set_keys(words *w, struct gguf_context *file)
{
    const uint32_t end = released_end_of_text(w->count);
    for (uint32_t token = 0; token < w->count; token++)
        w->types[token] = token < end ? NORMAL : CONTROL;
    gguf_set_val_str(file, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(file, "tokenizer.ggml.pre", "qwen35");
    set_strings(w, w->tokens, w->count, "tokenizer.ggml.tokens", file);
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, w->types, w->count);
    set_strings(w, w->merges, w->merge_count, "tokenizer.ggml.merges", file);
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", end);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", end);
    gguf_set_val_u32(file, "tokenizer.ggml.padding_token_id", end);
    gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", false);
}

qsa_status released_set_vocabulary(uint32_t vocabulary, struct gguf_context *file)
{
    assert(vocabulary >= RELEASED_MIN_VOCABULARY && vocabulary <= RELEASED_MAX_VOCABULARY);
    words w = {.count = vocabulary, .merge_count = vocabulary - RELEASED_SPECIALS - BYTES};
    w.tokens = calloc(w.count, sizeof *w.tokens);
    w.merges = calloc(w.merge_count, sizeof *w.merges);
    w.lines = calloc(w.count, sizeof *w.lines);
    w.types = calloc(w.count, sizeof *w.types);
    qsa_status status = QSA_OK;
    if (w.tokens && w.merges && w.lines && w.types) {
        write_text_tokens(&w);
        write_specials(&w);
        set_keys(&w, file);
    } else {
        status = engine_fail(QSA_E_MEMORY, "no memory for a vocabulary of %" PRIu32 " tokens", vocabulary);
    }
    free(w.tokens);
    free(w.merges);
    free(w.lines);
    free(w.types);
    return status;
}
