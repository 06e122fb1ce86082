/* SPDX-License-Identifier: Apache-2.0 */
#include "text_fixture.h"

#include "support.h"

#include <gguf.h>
#include <stdlib.h>
#include <string.h>

/* ---- from a GGUF ---- */

static int64_t key_of(const struct gguf_context *file, const char *key)
{
    int64_t id = gguf_find_key(file, key);
    if (id < 0)
        fail_msg("no key %s", key);
    return id;
}

static text_span *strings_of(const struct gguf_context *file, const char *key, size_t *out_count)
{
    int64_t id = key_of(file, key);
    *out_count = gguf_get_arr_n(file, id);
    text_span *spans = test_alloc(*out_count + 1, sizeof *spans);
    for (size_t i = 0; i < *out_count; i++) {
        spans[i].bytes = gguf_get_arr_str(file, id, i);
        spans[i].count = strlen(spans[i].bytes);
    }
    return spans;
}

tokenizer *fixture_from_gguf(const char *path, const char *pre)
{
    struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    struct gguf_context *file = gguf_init_from_file(path, params);
    if (!file)
        fail_msg("cannot read %s", path);
    tokenizer_input input = {.pre = pre};
    text_span *tokens = strings_of(file, "tokenizer.ggml.tokens", &input.token_count);
    text_span *merges = strings_of(file, "tokenizer.ggml.merges", &input.merge_count);
    input.tokens = tokens;
    input.merges = merges;
    input.types = gguf_get_arr_data(file, key_of(file, "tokenizer.ggml.token_type"));
    input.has_eos = true;
    input.eos = (int32_t)gguf_get_val_u32(file, key_of(file, "tokenizer.ggml.eos_token_id"));
    tokenizer *made;
    assert_int_equal(tokenizer_create(&input, &made), QSA_OK);
    free(tokens);
    free(merges);
    gguf_free(file);
    return made;
}

/* ---- made up ---- */

enum { MOST = 4096 };

static const char *letter_of(unsigned byte)
{
    static char letters[256][3];
    static unsigned extra = 0;
    if (byte == 0)
        extra = 0;
    bool plain = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    unsigned point = plain ? byte : 0x100 + extra++;
    char *letter = letters[byte];
    memset(letter, 0, 3);
    if (point < 0x80) {
        letter[0] = (char)point;
    } else {
        letter[0] = (char)(0xc0 | point >> 6);
        letter[1] = (char)(0x80 | (point & 0x3f));
    }
    return letter;
}

void fixture_init(fixture *made)
{
    memset(made, 0, sizeof *made);
    made->tokens = test_alloc(MOST, sizeof *made->tokens);
    made->types = test_alloc(MOST, sizeof *made->types);
    made->merges = test_alloc(MOST, sizeof *made->merges);
    made->input.pre = "qwen35";
    made->input.tokens = made->tokens;
    made->input.types = made->types;
    made->input.merges = made->merges;
    for (unsigned byte = 0; byte < 256; byte++)
        fixture_token(made, letter_of(byte), 1);
}

void fixture_release(fixture *made)
{
    free(made->tokens);
    free(made->types);
    free(made->merges);
}

int32_t fixture_token(fixture *made, const char *text, int32_t type)
{
    size_t id = made->input.token_count++;
    assert_true(id < MOST);
    made->tokens[id] = (text_span){text, strlen(text)};
    made->types[id] = type;
    return (int32_t)id;
}

void fixture_merge(fixture *made, const char *text)
{
    assert_true(made->input.merge_count < MOST);
    made->merges[made->input.merge_count++] = (text_span){text, strlen(text)};
}

tokenizer *fixture_tokenizer(const fixture *made)
{
    tokenizer *tokens;
    assert_int_equal(tokenizer_create(&made->input, &tokens), QSA_OK);
    return tokens;
}

void fixture_expect(const tokenizer *tokens, const char *text, size_t text_count, tokenizer_specials recognised,
                    const int32_t *ids, size_t count)
{
    int32_t *found;
    size_t found_count;
    assert_int_equal(tokenizer_encode(tokens, text, text_count, recognised, &found, &found_count), QSA_OK);
    assert_int_equal(found_count, count);
    test_same_integers(text, ids, found, count);
    free(found);
}

char *fixture_round_trip(const tokenizer *tokens, const char *text, size_t count, tokenizer_specials recognised,
                         size_t *out_count)
{
    int32_t *ids;
    size_t id_count;
    char *back;
    assert_int_equal(tokenizer_encode(tokens, text, count, recognised, &ids, &id_count), QSA_OK);
    assert_int_equal(tokenizer_decode(tokens, ids, id_count, &back, out_count), QSA_OK);
    free(ids);
    return back;
}
