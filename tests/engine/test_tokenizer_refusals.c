/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer: odd and hostile vocabularies, failing memory, failing matches. */
#include "text_fixture.h"

#include "base/error.h"
#include "support.h"
#include "text/decoder.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- what the linker puts before the engine's calls: failures on demand ---- */

static size_t allocations_left = SIZE_MAX; /* before one fails */
static int match_error;                    /* 0: none */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE count, PCRE2_SIZE begin, uint32_t options,
                         pcre2_match_data *data, pcre2_match_context *context);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE count, PCRE2_SIZE begin, uint32_t options,
                         pcre2_match_data *data, pcre2_match_context *context);

static bool allocation_fails(void)
{
    if (allocations_left == SIZE_MAX)
        return false;
    if (allocations_left == 0)
        return true;
    allocations_left--;
    return false;
}

void *__wrap_malloc(size_t size)
{
    return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return allocation_fails() ? NULL : __real_realloc(memory, size);
}

int __wrap_pcre2_match_8(const pcre2_code *code, PCRE2_SPTR text, PCRE2_SIZE count, PCRE2_SIZE begin, uint32_t options,
                         pcre2_match_data *data, pcre2_match_context *context)
{
    if (match_error)
        return match_error;
    return __real_pcre2_match_8(code, text, count, begin, options, data, context);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* ---- vocabularies that are refused ---- */

static void expect_refused(const fixture *made, qsa_status status, const char *detail)
{
    tokenizer *tokens = NULL;
    assert_int_equal(tokenizer_create(&made->input, &tokens), status);
    assert_string_equal(engine_error_detail(), detail);
    assert_null(tokens);
}

static void create_refuses_another_pre_tokenizer_by_name(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    made.input.pre = "llama-bpe";
    expect_refused(&made, QSA_E_UNSUPPORTED, "pre-tokenizer 'llama-bpe' is not supported (qwen35 and qwen2 are)");
    made.input.pre = NULL;
    expect_refused(&made, QSA_E_UNSUPPORTED, "pre-tokenizer '' is not supported (qwen35 and qwen2 are)");
    fixture_release(&made);
}

static void create_refuses_a_vocabulary_without_every_byte(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    made.types[0x0a] = 3;
    expect_refused(&made, QSA_E_FORMAT, "the vocabulary has no token for the byte 0x0a");
    made.input.token_count = 0;
    expect_refused(&made, QSA_E_FORMAT, "the vocabulary has no token for the byte 0x00");
    fixture_release(&made);
}

static void create_refuses_unknown_types_and_long_tokens(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t id = fixture_token(&made, "x", 7);
    expect_refused(&made, QSA_E_FORMAT, "token 256 has type 7; types are 1 to 6");
    made.types[id] = 0;
    expect_refused(&made, QSA_E_FORMAT, "token 256 has type 0; types are 1 to 6");
    made.types[id] = 1;
    made.tokens[id].count = 65536;
    expect_refused(&made, QSA_E_LIMIT, "token 256 has 65536 bytes; at most 65535");
    fixture_release(&made);
}

static void create_refuses_counts_beyond_the_limits(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    made.input.merge_count = (size_t)TOKENIZER_MAX_MERGES + 1;
    expect_refused(&made, QSA_E_LIMIT, "16777217 merges; at most 16777216");
    made.input.token_count = (size_t)TOKENIZER_MAX_TOKENS + 1;
    expect_refused(&made, QSA_E_LIMIT, "vocabulary of 16777217 tokens; at most 16777216");
    fixture_release(&made);
}

static void create_refuses_merges_that_mean_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *merge, *detail;
    } cases[] = {
        {"", "merge 1: expected two tokens with one space between them"},
        {"ab", "merge 1: expected two tokens with one space between them"},
        {" b", "merge 1: expected two tokens with one space between them"},
        {"a ", "merge 1: expected two tokens with one space between them"},
        {"a b c", "merge 1: expected two tokens with one space between them"},
        {"a  b", "merge 1: expected two tokens with one space between them"},
        {"a \xff", "merge 1: not written in the byte-level alphabet"},
        {"\xe4\xbb\x8a b", "merge 1: not written in the byte-level alphabet"},
        {"xy b", "merge 1: its left part is not an ordinary token"},
        {"a xy", "merge 1: its right part is not an ordinary token"},
        {"b a", "merge 1: its result is not an ordinary token"},
        {"a c", "merge 1: its result is not an ordinary token"},
    };
    fixture made;
    fixture_init(&made);
    fixture_token(&made, "ab", 1);
    fixture_token(&made, "ac", 3);
    fixture_merge(&made, "a b");
    fixture_merge(&made, "");
    for (size_t i = 0; i < COUNT(cases); i++) {
        made.merges[1] = (text_span){cases[i].merge, strlen(cases[i].merge)};
        expect_refused(&made, QSA_E_FORMAT, cases[i].detail);
    }
    made.merges[1].count = 200000;
    expect_refused(&made, QSA_E_LIMIT, "merge 1 has 200000 bytes; at most 131071");
    fixture_release(&made);
}

static void create_checks_the_tokens_that_begin_and_end_a_text(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    made.input.add_bos = true;
    expect_refused(&made, QSA_E_FORMAT, "add_bos is set but there is no bos token");
    made.input.has_bos = true;
    made.input.bos = 256;
    expect_refused(&made, QSA_E_FORMAT, "bos token 256 is outside the vocabulary of 256");
    made.input.bos = 255;
    made.input.has_eos = true;
    made.input.eos = -1;
    expect_refused(&made, QSA_E_FORMAT, "eos token -1 is outside the vocabulary of 256");
    made.input.eos = 3;
    tokenizer *tokens = fixture_tokenizer(&made);
    int32_t id = -7;
    assert_true(tokenizer_begins_with(tokens, &id));
    assert_int_equal(id, 255);
    assert_true(tokenizer_ends_with(tokens, &id));
    assert_int_equal(id, 3);
    tokenizer_destroy(tokens);
    made.input.add_bos = made.input.has_eos = false;
    tokens = fixture_tokenizer(&made);
    assert_false(tokenizer_begins_with(tokens, &id));
    assert_false(tokenizer_ends_with(tokens, &id));
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void create_takes_a_vocabulary_without_types_and_merges(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    made.input.types = NULL;
    made.input.merges = NULL;
    tokenizer *tokens = fixture_tokenizer(&made);
    fixture_expect(tokens, "ab", 2, TOKENIZER_SPECIALS_ALL, (int32_t[]){'a', 'b'}, 2);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

/* Random bytes in random places of a vocabulary: taken or refused, never worse. */
static void create_survives_random_vocabularies(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 2000; round++) {
        uint64_t seed = round;
        char noise[64][24];
        fixture made;
        fixture_init(&made);
        for (size_t i = 0; i < COUNT(noise); i++) {
            size_t count = next_random(&seed) % 24;
            for (size_t k = 0; k < count; k++)
                noise[i][k] = (char)(next_random(&seed) % 4 ? 'a' + next_random(&seed) % 2 : next_random(&seed));
            if (i < 48) {
                int32_t id = fixture_token(&made, "", (int32_t)(1 + next_random(&seed) % 6));
                made.tokens[id] = (text_span){noise[i], count};
            } else if (next_random(&seed) % 16 == 0) {
                fixture_merge(&made, "");
                made.merges[made.input.merge_count - 1] = (text_span){noise[i], count};
            }
        }
        tokenizer *tokens = NULL;
        if (tokenizer_create(&made.input, &tokens) == QSA_OK) {
            size_t count;
            free(fixture_round_trip(tokens, noise[0], 20, TOKENIZER_SPECIALS_ALL, &count));
        }
        tokenizer_destroy(tokens);
        fixture_release(&made);
    }
}

/* ---- failures on the way ---- */

static const char MIXED[] = "The e\xcc\xa3\xcc\x81\xcc\xa3 <|im_end|> of \xff the\n\n";

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    fixture_token(&made, "ab", 1);
    fixture_token(&made, "<|im_end|>", 3);
    fixture_merge(&made, "a b");
    qsa_status status = QSA_E_MEMORY;
    for (size_t before = 0; status != QSA_OK; before++) {
        assert_true(before < 100);
        tokenizer *tokens = NULL;
        text_decoder *decoder = NULL;
        int32_t *ids = NULL;
        char *text = NULL;
        size_t count = 0;
        allocations_left = before;
        status = tokenizer_create(&made.input, &tokens);
        if (status == QSA_OK)
            status = tokenizer_encode(tokens, MIXED, strlen(MIXED), TOKENIZER_SPECIALS_ALL, &ids, &count);
        if (status == QSA_OK)
            status = tokenizer_decode(tokens, ids, count, &text, &count);
        if (status == QSA_OK)
            status = text_decoder_create(tokens, &decoder);
        allocations_left = SIZE_MAX;
        assert_true(status == QSA_OK || status == QSA_E_MEMORY);
        assert_int_equal(status == QSA_OK, decoder != NULL);
        text_decoder_destroy(decoder);
        tokenizer_destroy(tokens);
        free(ids);
        free(text);
    }
    fixture_release(&made);
}

static void encode_returns_an_error_of_the_pattern_matcher(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    tokenizer *tokens = fixture_tokenizer(&made);
    int32_t *ids = NULL;
    size_t count = 7;
    match_error = PCRE2_ERROR_MATCHLIMIT;
    assert_int_equal(tokenizer_encode(tokens, "text", 4, TOKENIZER_SPECIALS_NONE, &ids, &count), QSA_E_LIMIT);
    assert_string_equal(engine_error_detail(), "splitting text into pieces at byte 0: match limit exceeded");
    match_error = PCRE2_ERROR_NOMEMORY;
    assert_int_equal(tokenizer_encode(tokens, "text", 4, TOKENIZER_SPECIALS_NONE, &ids, &count), QSA_E_MEMORY);
    match_error = 0;
    assert_null(ids);
    assert_int_equal(count, 7);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refuses_another_pre_tokenizer_by_name),
        cmocka_unit_test(create_refuses_a_vocabulary_without_every_byte),
        cmocka_unit_test(create_refuses_unknown_types_and_long_tokens),
        cmocka_unit_test(create_refuses_counts_beyond_the_limits),
        cmocka_unit_test(create_refuses_merges_that_mean_nothing),
        cmocka_unit_test(create_checks_the_tokens_that_begin_and_end_a_text),
        cmocka_unit_test(create_takes_a_vocabulary_without_types_and_merges),
        cmocka_unit_test(create_survives_random_vocabularies),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(encode_returns_an_error_of_the_pattern_matcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
