/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer: recorded cases, and its rules one by one. */
#include "text_fixture.h"

#include "base/error.h"
#include "support.h"
#include "text/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const tokenizer_specials NONE = TOKENIZER_SPECIALS_NONE, USER = TOKENIZER_SPECIALS_USER_DEFINED,
                                ALL = TOKENIZER_SPECIALS_ALL;

#define EXPECT(tokens, text, special, ...)                                                                             \
    fixture_expect(tokens, text, strlen(text), special, (const int32_t[]){__VA_ARGS__},                                \
                   COUNT(((const int32_t[]){__VA_ARGS__})))

static const char TINY[] = QSA_GOLDEN_DIR "/model/tiny-bf16.gguf";

/* ---- recorded cases ---- */

static void expect_recorded(const tokenizer *tokens, const golden_record *record, tokenizer_specials recognised,
                            const char *key)
{
    golden_error error = {{0}};
    size_t text_count, count = golden_words(record, key);
    const char *text = golden_text(record, "text", &text_count, &error);
    int32_t *ids = test_alloc(count + 1, sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)golden_integer(record, key, i, &error);
    test_no_golden_error(&error);
    fixture_expect(tokens, text, text_count, recognised, ids, count);
    free(ids);
}

static void expect_recorded_text(const tokenizer *tokens, const golden_record *record, tokenizer_specials recognised)
{
    golden_error error = {{0}};
    size_t text_count, expected_count, count;
    const char *text = golden_text(record, "text", &text_count, &error);
    const char *key = golden_has(record, "decoded") ? "decoded" : "text";
    const char *expected = golden_text(record, key, &expected_count, &error);
    test_no_golden_error(&error);
    char *back = fixture_round_trip(tokens, text, text_count, recognised, &count);
    assert_int_equal(count, expected_count);
    assert_memory_equal(back, expected, count);
    free(back);
}

static void tokenizer_encodes_recorded_cases_in_both_modes(void **state)
{
    (void)state;
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    golden_file *file = test_golden(QSA_GOLDEN_DIR "/tokenizer", "cases.txt");
    size_t cases = 0;
    for (size_t i = 0; i < golden_record_count(file); i++) {
        const golden_record *record = golden_record_at(file, i);
        if (strcmp(golden_record_type(record), "case") != 0)
            continue;
        const char *as_text = golden_has(record, "ids_specials_as_text") ? "ids_specials_as_text" : "ids";
        expect_recorded(tokens, record, ALL, "ids");
        /* The recorded cases that treat special tokens as text still recognise the user-defined ones. */
        expect_recorded(tokens, record, USER, as_text);
        for (tokenizer_specials recognised = NONE; recognised <= USER; recognised++)
            expect_recorded_text(tokens, record, recognised);
        cases++;
    }
    assert_int_equal(cases, 133);
    golden_free(file);
    tokenizer_destroy(tokens);
}

static void expect_piece(const tokenizer *tokens, text_decoder *decoder, const golden_record *record)
{
    golden_error error = {{0}};
    char hex[256] = "", shown[256] = "";
    size_t expected_count;
    const char *expected = golden_text(record, "decoded", &expected_count, &error);
    for (size_t i = 0; i < golden_words(record, "ids"); i++) {
        int32_t id = (int32_t)golden_integer(record, "ids", i, &error);
        const char *bytes;
        size_t count;
        assert_int_equal(tokenizer_token_bytes(tokens, id, &bytes, &count), QSA_OK);
        for (size_t k = 0; k < count; k++)
            sprintf(hex + strlen(hex), "%02x", (unsigned char)bytes[k]);
        assert_int_equal(text_decoder_push(decoder, id, &bytes, &count), QSA_OK);
        strncat(shown, bytes, count);
    }
    const char *rest;
    size_t rest_count;
    text_decoder_finish(decoder, &rest, &rest_count);
    strncat(shown, rest, rest_count);
    assert_string_equal(hex, golden_word(record, "bytes", 0, &error));
    test_no_golden_error(&error);
    assert_int_equal(strlen(shown), expected_count);
    assert_memory_equal(shown, expected, expected_count);
}

static void tokenizer_decodes_recorded_pieces(void **state)
{
    (void)state;
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    golden_file *file = test_golden(QSA_GOLDEN_DIR "/tokenizer", "cases.txt");
    text_decoder *decoder;
    assert_int_equal(text_decoder_create(tokens, &decoder), QSA_OK);
    size_t pieces = 0;
    for (size_t i = 0; i < golden_record_count(file); i++) {
        const golden_record *record = golden_record_at(file, i);
        if (strcmp(golden_record_type(record), "piece") != 0)
            continue;
        expect_piece(tokens, decoder, record);
        pieces++;
    }
    assert_int_equal(pieces, 9);
    text_decoder_destroy(decoder);
    golden_free(file);
    tokenizer_destroy(tokens);
}

/* ---- encoding ---- */

static void encode_takes_the_earliest_merge_then_the_leftmost(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t bc = fixture_token(&made, "bc", 1), ab = fixture_token(&made, "ab", 1), aa = fixture_token(&made, "aa", 1);
    fixture_merge(&made, "b c");
    fixture_merge(&made, "a b");
    fixture_merge(&made, "a a");
    tokenizer *tokens = fixture_tokenizer(&made);
    EXPECT(tokens, "abc", NONE, 'a', bc);
    EXPECT(tokens, "abab", NONE, ab, ab);
    EXPECT(tokens, "aaa", NONE, aa, 'a');
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void encode_uses_the_lowest_of_equal_tokens_and_the_first_of_equal_merges(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t ab = fixture_token(&made, "ab", 1), bc = fixture_token(&made, "bc", 1);
    int32_t again = fixture_token(&made, "ab", 1);
    fixture_token(&made, "a", 1);
    fixture_merge(&made, "a b");
    fixture_merge(&made, "b c");
    fixture_merge(&made, "a b");
    tokenizer *tokens = fixture_tokenizer(&made);
    EXPECT(tokens, "abc", NONE, ab, 'c');
    EXPECT(tokens, "xbc", NONE, 'x', bc);
    const char *bytes;
    size_t count;
    assert_int_equal(tokenizer_token_bytes(tokens, again, &bytes, &count), QSA_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(bytes, "ab", 2);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void encode_recognises_special_tokens_only_where_asked(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t control = fixture_token(&made, "<x>", 3), user = fixture_token(&made, "<y>", 4);
    fixture_token(&made, "<u>", 2);
    fixture_token(&made, "<p>", 5);
    fixture_token(&made, "", 3);
    tokenizer *tokens = fixture_tokenizer(&made);
    EXPECT(tokens, "<x><y>a", ALL, control, user, 'a');
    EXPECT(tokens, "<x><y>a", USER, '<', 'x', '>', user, 'a');
    EXPECT(tokens, "<x><y>", NONE, '<', 'x', '>', '<', 'y', '>');
    EXPECT(tokens, "<u><p>", ALL, '<', 'u', '>', '<', 'p', '>');
    EXPECT(tokens, "<x", ALL, '<', 'x');
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void encode_takes_special_tokens_leftmost_then_longest(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t abc = fixture_token(&made, "abc", 3), ab = fixture_token(&made, "ab", 3);
    int32_t bcde = fixture_token(&made, "bcde", 3);
    int32_t user = fixture_token(&made, "ab", 4);
    tokenizer *tokens = fixture_tokenizer(&made);
    EXPECT(tokens, "abcde", ALL, abc, 'd', 'e');
    EXPECT(tokens, "abde", ALL, ab, 'd', 'e');
    EXPECT(tokens, "abcde", USER, user, 'c', 'd', 'e');
    EXPECT(tokens, "aabbcdeab", ALL, 'a', ab, bcde, ab);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void encode_normalises_on_both_sides_of_a_special_token(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t special = fixture_token(&made, "e", 3);
    tokenizer *tokens = fixture_tokenizer(&made);
    EXPECT(tokens, "e\xcc\x81", NONE, 0xc3, 0xa9);
    EXPECT(tokens, "e\xcc\x81", ALL, special, 0xcc, 0x81);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void encode_passes_bytes_that_are_not_utf8_unchanged(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t joined = fixture_token(&made, "\xc3\xbe\xc3\xbf", 1); /* the bytes fe ff */
    fixture_merge(&made, "\xc3\xbe \xc3\xbf");
    tokenizer *tokens = fixture_tokenizer(&made);
    EXPECT(tokens, "a\xfe\xff\x62", NONE, 'a', joined, 'b');
    EXPECT(tokens, "e\xff\xcc\x81", NONE, 'e', 0xff, 0xcc, 0x81); /* a mark does not reach across */
    EXPECT(tokens, "\xed\xa0\x80", NONE, 0xed, 0xa0, 0x80);       /* a surrogate */
    EXPECT(tokens, "\xe4\xbb", NONE, 0xe4, 0xbb);                 /* cut at the end */
    EXPECT(tokens, "e\xcc\x81\xc3", NONE, 0xc3, 0xa9, 0xc3);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

static void encode_gives_memory_for_an_empty_text(void **state)
{
    (void)state;
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    int32_t *ids = NULL;
    char *text = NULL;
    size_t count = 7, text_count = 7;
    assert_int_equal(tokenizer_encode(tokens, NULL, 0, ALL, &ids, &count), QSA_OK);
    assert_non_null(ids);
    assert_int_equal(count, 0);
    assert_int_equal(tokenizer_decode(tokens, ids, 0, &text, &text_count), QSA_OK);
    assert_non_null(text);
    assert_int_equal(text_count, 0);
    free(ids);
    free(text);
    tokenizer_destroy(tokens);
}

static void encode_refuses_a_text_beyond_the_limit(void **state)
{
    (void)state;
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    int32_t *ids = NULL;
    size_t count = 7;
    assert_int_equal(tokenizer_encode(tokens, "", (size_t)TOKENIZER_MAX_TEXT_BYTES + 1, ALL, &ids, &count),
                     QSA_E_LIMIT);
    assert_null(ids);
    assert_int_equal(count, 7);
    tokenizer_destroy(tokens);
}

/* Merging by the book: look for the best pair of the whole piece, again and again. */
static size_t merge_slowly(int32_t *ids, size_t count, const int32_t (*rules)[3], size_t rule_count)
{
    for (size_t rule = 0; rule < rule_count;) {
        size_t at = 0;
        while (at + 1 < count && !(ids[at] == rules[rule][0] && ids[at + 1] == rules[rule][1]))
            at++;
        if (at + 1 >= count) {
            rule++;
            continue;
        }
        ids[at] = rules[rule][2];
        memmove(ids + at + 1, ids + at + 2, (count - at - 2) * sizeof *ids);
        count--;
        rule = 0; /* the new token may belong to an earlier rule */
    }
    return count;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static void join(char *out, const char *left, const char *between, const char *right)
{
    size_t count = strlen(left), gap = strlen(between);
    memcpy(out, left, count);
    memcpy(out + count, between, gap);
    memcpy(out + count + gap, right, strlen(right) + 1);
}

/* Random rules over the letters a, b, c, each of two tokens that exist by then. */
static size_t random_rules(fixture *made, uint64_t *seed, char texts[][64], int32_t (*rules)[3], size_t most)
{
    static char merges[64][160];
    size_t token_count = 3, rule_count = 0;
    int32_t ids[67] = {'a', 'b', 'c'};
    for (int i = 0; i < 3; i++)
        memcpy(texts[i], (char[2]){(char)('a' + i)}, 2);
    for (size_t tries = 0; tries < most; tries++) {
        size_t left = next_random(seed) % token_count, right = next_random(seed) % token_count;
        if (strlen(texts[left]) + strlen(texts[right]) > 12)
            continue;
        join(texts[token_count], texts[left], "", texts[right]);
        size_t same = 0;
        while (strcmp(texts[same], texts[token_count]) != 0)
            same++;
        ids[token_count] = same < token_count ? ids[same] : fixture_token(made, texts[token_count], 1);
        join(merges[rule_count], texts[left], " ", texts[right]);
        fixture_merge(made, merges[rule_count]);
        memcpy(rules[rule_count++], (int32_t[3]){ids[left], ids[right], ids[token_count]}, sizeof *rules);
        token_count += same == token_count;
    }
    return rule_count;
}

static void encode_merges_as_the_slow_way_does(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t seed = round;
        static char texts[68][64];
        int32_t rules[64][3], ids[200];
        char text[201] = "";
        fixture made;
        fixture_init(&made);
        size_t rule_count = random_rules(&made, &seed, texts, rules, 64);
        tokenizer *tokens = fixture_tokenizer(&made);
        for (int trial = 0; trial < 20; trial++) {
            size_t count = next_random(&seed) % 200;
            for (size_t i = 0; i < count; i++)
                ids[i] = text[i] = (char)('a' + next_random(&seed) % 3);
            text[count] = 0;
            size_t merged = merge_slowly(ids, count, rules, rule_count);
            fixture_expect(tokens, text, count, NONE, ids, merged);
        }
        tokenizer_destroy(tokens);
        fixture_release(&made);
    }
}

/* Long pieces of every kind; with quadratic time this test would run into its time limit. */
static void encode_takes_long_pieces_in_its_stride(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    static const char *const units[] = {"a",
                                        "ab",
                                        " ",
                                        "\n",
                                        " \n",
                                        "\r\n \t",
                                        "!",
                                        "\xe4\xbb\x8a",
                                        "\xcc\x81\xcc\xa3",
                                        "e\xcc\xa3\xcc\x81",
                                        "\xff",
                                        "7",
                                        "'",
                                        "\xc2\xa0",
                                        "\xf0\x9f\x98\x80",
                                        "<|im_end|"};
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    char *text = test_alloc(BYTES + 32, 1);
    for (size_t i = 0; i < COUNT(units); i++) {
        size_t unit = strlen(units[i]), count = BYTES / unit * unit, back_count;
        for (size_t at = 0; at < count; at += unit)
            memcpy(text + at, units[i], unit);
        char *back = fixture_round_trip(tokens, text, count, ALL, &back_count);
        char *again = fixture_round_trip(tokens, back, back_count, ALL, &count);
        assert_int_equal(count, back_count);
        assert_memory_equal(again, back, count);
        free(back);
        free(again);
    }
    free(text);
    tokenizer_destroy(tokens);
}

static void encode_merges_a_million_equal_letters(void **state)
{
    (void)state;
    enum { LEVELS = 12, BYTES = 1 << 20 };
    static char texts[LEVELS + 1][(1 << LEVELS) + 1], merges[LEVELS][(1 << LEVELS) + 2];
    fixture made;
    fixture_init(&made);
    texts[0][0] = 'a';
    int32_t largest = 0;
    for (int level = 0; level < LEVELS; level++) {
        join(texts[level + 1], texts[level], "", texts[level]);
        join(merges[level], texts[level], " ", texts[level]);
        largest = fixture_token(&made, texts[level + 1], 1);
        fixture_merge(&made, merges[level]);
    }
    tokenizer *tokens = fixture_tokenizer(&made);
    char *text = test_alloc(BYTES, 1);
    int32_t expected[BYTES >> LEVELS];
    memset(text, 'a', BYTES);
    for (size_t i = 0; i < COUNT(expected); i++)
        expected[i] = largest;
    fixture_expect(tokens, text, BYTES, NONE, expected, COUNT(expected));
    free(text);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

/* Bytes from a small set that makes words, marks, breaks and broken characters likely. */
static size_t random_text(uint64_t *seed, char *text, size_t most)
{
    static const char *const units[] = {"a",
                                        "e",
                                        "'",
                                        "s",
                                        "S",
                                        " ",
                                        " ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "1",
                                        "!",
                                        "\xcc\x81",
                                        "\xcc\xa3",
                                        "\xe2\x84\xab",
                                        "\xe1\x84\x80\xe1\x85\xa1",
                                        "\xe4\xbb\x8a",
                                        "\xff",
                                        "\xe4",
                                        "\x80",
                                        "\xf0\x9f",
                                        "\xc2\xa0",
                                        "<|im_end|>",
                                        "<think",
                                        "\xed\xa0\x80",
                                        "\xf4\x8f\xbf\xbf"};
    size_t count = 0, units_wanted = next_random(seed) % (most / 12);
    for (size_t i = 0; i < units_wanted; i++) {
        uint64_t pick = next_random(seed) % (COUNT(units) + 4);
        if (pick >= COUNT(units)) {
            text[count++] = (char)next_random(seed);
            continue;
        }
        memcpy(text + count, units[pick], strlen(units[pick]));
        count += strlen(units[pick]);
    }
    return count;
}

static void encode_of_any_bytes_decodes_to_their_normal_form(void **state)
{
    (void)state;
    static const char *const kinds[] = {"qwen35", "qwen2"};
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        tokenizer *tokens = fixture_from_gguf(TINY, kinds[kind]);
        for (uint64_t round = 0; round < 4000; round++) {
            char text[600];
            uint64_t seed = round;
            size_t count = random_text(&seed, text, sizeof text), plain_count, special_count, again_count;
            char *plain = fixture_round_trip(tokens, text, count, NONE, &plain_count);
            char *special = fixture_round_trip(tokens, text, count, ALL, &special_count);
            char *again = fixture_round_trip(tokens, plain, plain_count, NONE, &again_count);
            if (again_count != plain_count || memcmp(again, plain, plain_count) != 0)
                fail_msg("seed %llu: not stable", (unsigned long long)round);
            /* A special token parts text that would otherwise be composed, but removes no character. */
            if (special_count < plain_count)
                fail_msg("seed %llu: bytes are lost", (unsigned long long)round);
            free(plain);
            free(special);
            free(again);
        }
        tokenizer_destroy(tokens);
    }
}

static void encode_of_ascii_and_broken_bytes_is_undone_exactly(void **state)
{
    (void)state;
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    for (uint64_t round = 0; round < 2000; round++) {
        char text[300];
        uint64_t seed = round;
        size_t count = next_random(&seed) % sizeof text, back_count;
        for (size_t i = 0; i < count; i++) {
            uint64_t pick = next_random(&seed);
            text[i] = (char)(pick % 3 ? pick / 3 % 128 : pick % 2 ? 0xc0 : 0xf5 + pick / 6 % 11);
        }
        char *back = fixture_round_trip(tokens, text, count, NONE, &back_count);
        if (back_count != count || memcmp(back, text, count) != 0)
            fail_msg("seed %llu: bytes changed", (unsigned long long)round);
        free(back);
    }
    tokenizer_destroy(tokens);
}

/* ---- decoding ---- */

static void decode_refuses_what_is_no_token(void **state)
{
    (void)state;
    tokenizer *tokens = fixture_from_gguf(TINY, "qwen35");
    const char *bytes = "kept";
    char *text = NULL;
    size_t count = 7;
    assert_int_equal(tokenizer_count(tokens), 576);
    assert_int_equal(tokenizer_token_bytes(tokens, -1, &bytes, &count), QSA_E_ARGUMENT);
    assert_int_equal(tokenizer_token_bytes(tokens, 576, &bytes, &count), QSA_E_ARGUMENT);
    assert_string_equal(bytes, "kept");
    assert_int_equal(tokenizer_decode(tokens, (int32_t[]){5, INT32_MAX}, 2, &text, &count), QSA_E_ARGUMENT);
    assert_string_equal(engine_error_detail(), "index 1: token 2147483647 is outside the vocabulary of 576");
    assert_null(text);
    assert_int_equal(count, 7);
    tokenizer_destroy(tokens);
}

static void decode_of_unused_tokens_is_empty_and_of_others_their_bytes(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    int32_t ids[] = {fixture_token(&made, "[PAD]", 5),
                     fixture_token(&made, "<unk>", 2),
                     fixture_token(&made, "not in the alphabet", 1),
                     fixture_token(&made, "\xff\xc4", 1),
                     fixture_token(&made, "", 1),
                     fixture_token(&made, "\xc4\xa0x", 6)};
    tokenizer *tokens = fixture_tokenizer(&made);
    char *text;
    size_t count;
    assert_int_equal(tokenizer_decode(tokens, ids, COUNT(ids), &text, &count), QSA_OK);
    static const char expected[] = "<unk>not in the alphabet\xff\xc4 x";
    assert_int_equal(count, strlen(expected));
    assert_memory_equal(text, expected, count);
    assert_int_equal(tokenizer_longest_bytes(tokens), strlen("not in the alphabet"));
    free(text);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizer_encodes_recorded_cases_in_both_modes),
        cmocka_unit_test(tokenizer_decodes_recorded_pieces),
        cmocka_unit_test(encode_takes_the_earliest_merge_then_the_leftmost),
        cmocka_unit_test(encode_uses_the_lowest_of_equal_tokens_and_the_first_of_equal_merges),
        cmocka_unit_test(encode_recognises_special_tokens_only_where_asked),
        cmocka_unit_test(encode_takes_special_tokens_leftmost_then_longest),
        cmocka_unit_test(encode_normalises_on_both_sides_of_a_special_token),
        cmocka_unit_test(encode_passes_bytes_that_are_not_utf8_unchanged),
        cmocka_unit_test(encode_gives_memory_for_an_empty_text),
        cmocka_unit_test(encode_refuses_a_text_beyond_the_limit),
        cmocka_unit_test(encode_merges_as_the_slow_way_does),
        cmocka_unit_test(encode_takes_long_pieces_in_its_stride),
        cmocka_unit_test(encode_merges_a_million_equal_letters),
        cmocka_unit_test(encode_of_any_bytes_decodes_to_their_normal_form),
        cmocka_unit_test(encode_of_ascii_and_broken_bytes_is_undone_exactly),
        cmocka_unit_test(decode_refuses_what_is_no_token),
        cmocka_unit_test(decode_of_unused_tokens_is_empty_and_of_others_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
