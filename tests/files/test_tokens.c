/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens as published files name them: several ends, tokens that a text begins and ends with, rows without a token. */
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

/* Of the tiny model: <|endoftext|>, <|im_start|>, <|im_end|>, <think>. */
enum { END = 556, START = 557, TURN = 558, THINK = 559, VOCABULARY = 576, NAMED = 560 };

#define TOKENIZER(name) "tokenizer.ggml." name

static void expect_ends(qsa_model *model, const int32_t *ends, size_t n)
{
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    assert_int_equal(info.end_count, n);
    assert_memory_equal(info.ends, ends, n * sizeof *ends);
    for (int32_t id = -1; id <= VOCABULARY; id++) {
        bool is_end = false;
        for (size_t i = 0; i < n; i++)
            is_end = is_end || ends[i] == id;
        assert_int_equal(qsa_model_is_end(model, id), is_end);
    }
    qsa_model_close(model);
}

static void ends_are_named_by_keys_and_texts(void **state)
{
    (void)state;
    expect_ends(rewrite_plain(), (int32_t[]){END, TURN}, 2); /* eos, and "<|im_end|>" */
    rewrite r = rewrite_begin();
    gguf_set_val_u32(r.to, TOKENIZER("eos_token_id"), TURN);
    gguf_set_val_u32(r.to, TOKENIZER("eot_token_id"), 20);
    gguf_set_val_u32(r.to, TOKENIZER("eom_token_id"), START);
    gguf_set_val_u32(r.to, TOKENIZER("fim_pad_token_id"), 20);
    expect_ends(rewrite_open_good(&r), (int32_t[]){20, END, START, TURN}, 4);
    r = rewrite_begin();
    gguf_remove_key(r.to, TOKENIZER("eos_token_id"));
    expect_ends(rewrite_open_good(&r), (int32_t[]){END, TURN}, 2);
}

static void ends_outside_the_vocabulary_are_refused(void **state)
{
    (void)state;
    static const char *const keys[] = {TOKENIZER("eot_token_id"), TOKENIZER("eom_token_id"), TOKENIZER("eos_token_id")};
    for (size_t i = 0; i < 3; i++) {
        rewrite r = rewrite_begin();
        gguf_set_val_u32(r.to, keys[i], VOCABULARY);
        rewrite_refused(&r, QSA_E_FORMAT, "token 576 is outside");
    }
}

static void only_control_tokens_are_control(void **state)
{
    (void)state;
    qsa_model *model = rewrite_plain();
    for (int32_t id = -1; id <= VOCABULARY; id++)
        assert_int_equal(qsa_model_is_control(model, id), id >= END && id <= TURN);
    qsa_model_close(model);
}

static void expect_text(qsa_model *model, int32_t first, int32_t last)
{
    int32_t *plain, *whole;
    size_t n, m, at = first >= 0;
    assert_int_equal(qsa_model_encode(model, "the cat", 7, QSA_SPECIALS_NONE, &plain, &n), QSA_OK);
    assert_int_equal(qsa_model_encode_text(model, "the cat", 7, QSA_SPECIALS_NONE, &whole, &m), QSA_OK);
    assert_int_equal(m, n + at + (last >= 0));
    assert_memory_equal(whole + at, plain, n * sizeof *plain);
    assert_true(first < 0 || whole[0] == first);
    assert_true(last < 0 || whole[m - 1] == last);
    free(plain);
    free(whole);
    qsa_model_close(model);
}

static void a_text_begins_and_ends_as_the_file_says(void **state)
{
    (void)state;
    expect_text(rewrite_plain(), -1, -1);
    for (int which = 1; which < 4; which++) {
        rewrite r = rewrite_begin();
        gguf_set_val_u32(r.to, TOKENIZER("bos_token_id"), START);
        gguf_set_val_bool(r.to, TOKENIZER("add_bos_token"), which & 1);
        gguf_set_val_bool(r.to, TOKENIZER("add_eos_token"), which & 2);
        expect_text(rewrite_open_good(&r), which & 1 ? START : -1, which & 2 ? END : -1);
    }
    rewrite r = rewrite_begin();
    gguf_set_val_bool(r.to, TOKENIZER("add_bos_token"), true);
    rewrite_refused(&r, QSA_E_FORMAT, "add_bos");
    r = rewrite_begin();
    gguf_remove_key(r.to, TOKENIZER("eos_token_id"));
    gguf_set_val_bool(r.to, TOKENIZER("add_eos_token"), true);
    rewrite_refused(&r, QSA_E_FORMAT, "add_eos");
}

/* Cuts the lists of tokens and types. */
static void keep_tokens(rewrite *r, size_t n)
{
    const int64_t tokens = gguf_find_key(r->from, TOKENIZER("tokens")),
                  types = gguf_find_key(r->from, TOKENIZER("token_type"));
    const char **lines = test_alloc(n, sizeof *lines);
    for (size_t i = 0; i < n; i++)
        lines[i] = gguf_get_arr_str(r->from, tokens, i);
    gguf_set_arr_str(r->to, TOKENIZER("tokens"), lines, n);
    gguf_set_arr_data(r->to, TOKENIZER("token_type"), GGUF_TYPE_INT32, gguf_get_arr_data(r->from, types), n);
    free(lines);
}

static void rows_without_a_token_are_never_drawn(void **state)
{
    (void)state;
    static const size_t kept[] = {NAMED, NAMED - 1, VOCABULARY - 1};
    for (size_t k = 0; k < 3; k++) {
        rewrite r = rewrite_begin();
        keep_tokens(&r, kept[k]);
        qsa_model *model = rewrite_open_good(&r);
        qsa_model_info info;
        qsa_model_get_info(model, &info);
        assert_int_equal(info.tokens, kept[k]);
        assert_int_equal(info.vocabulary, VOCABULARY);
        float logits[VOCABULARY] = {0};
        for (size_t i = kept[k]; i < VOCABULARY; i++)
            logits[i] = 50; /* the rows without a token are the likeliest by far */
        for (int greedy = 0; greedy < 2; greedy++) {
            qsa_sampler_options options;
            qsa_sampler *sampler;
            qsa_sampler_options_init(&options);
            options.temperature = greedy ? 0 : 1;
            assert_int_equal(qsa_sampler_create(&options, info.tokens, &sampler), QSA_OK);
            for (int i = 0; i < 50; i++) {
                int32_t token;
                assert_int_equal(qsa_sampler_next(sampler, logits, &token), QSA_OK);
                assert_in_range(token, 0, kept[k] - 1);
            }
            qsa_sampler_destroy(sampler);
        }
        qsa_model_close(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_named_by_keys_and_texts),
        cmocka_unit_test(ends_outside_the_vocabulary_are_refused),
        cmocka_unit_test(only_control_tokens_are_control),
        cmocka_unit_test(a_text_begins_and_ends_as_the_file_says),
        cmocka_unit_test(rows_without_a_token_are_never_drawn),
    };
    return cmocka_run_group_tests(tests, rewrite_setup, rewrite_teardown);
}
