/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the tokenizer: characters, text that arrives in pieces, normal form, pre-tokenizer pieces. */
#include "text_fixture.h"

#include "support.h"
#include "text/decoder.h"
#include "text/nfc.h"
#include "text/pieces.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* ---- characters ---- */

static size_t put_utf8(uint32_t point, char *out)
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00 >> length & 0xff) | point);
    return length;
}

static void utf8_knows_every_character_and_no_other(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x120000; point++) {
        char bytes[4];
        size_t length, written = put_utf8(point, bytes);
        bool is_character = point < 0x110000 && !(point >= 0xd800 && point < 0xe000);
        utf8_kind kind = utf8_scan(bytes, written, &length);
        if ((kind == UTF8_VALID) != is_character || (is_character && length != written))
            fail_msg("U+%04X", (unsigned)point);
        for (size_t cut = 1; cut < written && is_character; cut++)
            if (utf8_scan(bytes, cut, &length) != UTF8_INCOMPLETE || length != cut)
                fail_msg("U+%04X cut after %zu bytes", (unsigned)point, cut);
    }
}

static void utf8_cuts_broken_text_into_maximal_subparts(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        utf8_kind kind;
        size_t length;
    } cases[] = {
        {"\x80", UTF8_INVALID, 1},
        {"\xc0\x80", UTF8_INVALID, 1},
        {"\xc1\xbf", UTF8_INVALID, 1},
        {"\xe0\x9f\xbf", UTF8_INVALID, 1},
        {"\xed\xa0\x80", UTF8_INVALID, 1},
        {"\xf0\x8f\xbf\xbf", UTF8_INVALID, 1},
        {"\xf4\x90\x80\x80", UTF8_INVALID, 1},
        {"\xf5", UTF8_INVALID, 1},
        {"\xff", UTF8_INVALID, 1},
        {"\xe4\xbb"
         "a",
         UTF8_INVALID, 2},
        {"\xf0\x9f\x98"
         "a",
         UTF8_INVALID, 3},
        {"\xc3"
         "a",
         UTF8_INVALID, 1},
        {"\xe4\xbb", UTF8_INCOMPLETE, 2},
        {"\xf0\x9f\x98", UTF8_INCOMPLETE, 3},
        {"\xc3", UTF8_INCOMPLETE, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t length;
        assert_int_equal(utf8_scan(cases[i].bytes, strlen(cases[i].bytes), &length), cases[i].kind);
        assert_int_equal(length, cases[i].length);
    }
}

/* What a stream prints for text that arrives at once. */
static size_t show(const char *bytes, size_t count, char *out)
{
    utf8_stream stream = {{0}, 0};
    size_t written = utf8_stream_push(&stream, bytes, count, out);
    return written + utf8_stream_finish(&stream, out + written);
}

static void stream_prints_the_same_however_text_arrives(void **state)
{
    (void)state;
    static const unsigned char likely[] = {0x61, 0x80, 0xbf, 0xc3, 0xe0, 0xa0, 0xe4,
                                           0xed, 0x9f, 0xf0, 0x90, 0xf4, 0x8f, 0xff};
    for (uint64_t round = 0; round < 20000; round++) {
        char bytes[24], whole[128], parts[128];
        uint64_t seed = round;
        size_t count = next_random(&seed) % sizeof bytes, written = 0;
        for (size_t i = 0; i < count; i++)
            bytes[i] = (char)likely[next_random(&seed) % COUNT(likely)];
        size_t expected = show(bytes, count, whole);
        utf8_stream stream = {{0}, 0};
        for (size_t at = 0, step; at < count; at += step) {
            step = 1 + next_random(&seed) % 5;
            step = step < count - at ? step : count - at;
            size_t now = utf8_stream_push(&stream, bytes + at, step, parts + written);
            assert_true(now <= utf8_stream_bound(step));
            written += now;
            assert_true(stream.held_count < 4);
        }
        written += utf8_stream_finish(&stream, parts + written);
        if (written != expected || memcmp(whole, parts, written) != 0)
            fail_msg("seed %llu", (unsigned long long)round);
    }
}

static void stream_prints_whole_characters_only(void **state)
{
    (void)state;
    static const char face[] = "\xf0\x9f\x98\x80";
    utf8_stream stream = {{0}, 0};
    char out[32];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(utf8_stream_push(&stream, face + i, 1, out), 0);
    assert_int_equal(utf8_stream_push(&stream, face + 3, 1, out), 4);
    assert_memory_equal(out, face, 4);
    assert_int_equal(utf8_stream_push(&stream, face, 2, out), 0);
    assert_int_equal(utf8_stream_push(&stream, "a", 1, out), 4);
    assert_memory_equal(out,
                        "\xef\xbf\xbd"
                        "a",
                        4);
    assert_int_equal(utf8_stream_finish(&stream, out), 0);
    assert_int_equal(utf8_stream_push(&stream, face, 3, out), 0);
    assert_int_equal(utf8_stream_finish(&stream, out), 3);
    assert_memory_equal(out, "\xef\xbf\xbd", 3);
    assert_int_equal(utf8_stream_finish(&stream, out), 0);
}

static void decoder_refuses_what_is_no_token_and_goes_on(void **state)
{
    (void)state;
    fixture made;
    fixture_init(&made);
    tokenizer *tokens = fixture_tokenizer(&made);
    text_decoder *decoder;
    const char *text = NULL;
    size_t count = 7;
    assert_int_equal(text_decoder_create(tokens, &decoder), QSA_OK);
    assert_int_equal(text_decoder_push(decoder, 0xc3, &text, &count), QSA_OK);
    assert_int_equal(count, 0);
    assert_int_equal(text_decoder_push(decoder, 256, &text, &count), QSA_E_ARGUMENT);
    assert_int_equal(text_decoder_push(decoder, 0xa9, &text, &count), QSA_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(text, "\xc3\xa9", 2);
    text_decoder_destroy(decoder);
    text_decoder_destroy(NULL);
    tokenizer_destroy(tokens);
    fixture_release(&made);
}

/* ---- normal form ---- */

static byte_list normalise(const char *bytes, size_t count)
{
    nfc_work work;
    byte_list out = {NULL, 0, 0};
    memset(&work, 0, sizeof work);
    assert_int_equal(byte_list_reserve(&out, 1), QSA_OK);
    assert_int_equal(nfc_append(&work, bytes, count, &out), QSA_OK);
    nfc_work_release(&work);
    return out;
}

static void nfc_composes_and_orders(void **state)
{
    (void)state;
    static const struct {
        const char *text, *normal;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"xe\xcc\x81y", "x\xc3\xa9y"},
        {"\xcc\x81", "\xcc\x81"},                                 /* nothing to compose with */
        {"e\xcc\x81\xcc\xa3", "\xe1\xba\xb9\xcc\x81"},            /* ordered first: dot below, then acute */
        {"\xc3\xa9\xcc\xa3", "\xe1\xba\xb9\xcc\x81"},             /* a composed one comes apart for it */
        {"e\xcc\x81\xcc\x81", "\xc3\xa9\xcc\x81"},                /* the second acute is blocked */
        {"\xe2\x84\xab\xe2\x84\xa6", "\xc3\x85\xce\xa9"},         /* singletons */
        {"\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* excluded from composition */
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"},
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"}, /* Hangul */
        {"\xea\xb0\x80\xe1\x86\xa7", "\xea\xb0\x80\xe1\x86\xa7"}, /* U+11A7 is no final consonant */
        {"\xea\xb0\x80\xe1\x86\xa7\xe1\x84\x80\xe1\x85\xa1", "\xea\xb0\x80\xe1\x86\xa7\xea\xb0\x80"},
        {"=\xcc\xb8<\xcc\xb8", "\xe2\x89\xa0\xe2\x89\xae"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        byte_list out = normalise(cases[i].text, strlen(cases[i].text));
        assert_int_equal(out.count, strlen(cases[i].normal));
        assert_memory_equal(out.items, cases[i].normal, out.count);
        free(out.items);
    }
}

/* Marks of class 230 and 220 in turn: the latter all go first. */
static void nfc_orders_a_long_run_of_marks(void **state)
{
    (void)state;
    enum { PAIRS = 1 << 18 };
    char *text = test_alloc(PAIRS, 4);
    for (size_t i = 0; i < PAIRS; i++)
        memcpy(text + 4 * i, "\xcc\x81\xcc\xa3", 4);
    byte_list out = normalise(text, (size_t)PAIRS * 4);
    assert_int_equal(out.count, (size_t)PAIRS * 4);
    for (size_t i = 0; i < 2 * (size_t)PAIRS; i++)
        if (memcmp(out.items + 2 * i, i < PAIRS ? "\xcc\xa3" : "\xcc\x81", 2) != 0)
            fail_msg("mark %zu", i);
    free(out.items);
    free(text);
}

/* ---- pieces ---- */

static size_t next_end(piece_matcher *matcher, const char *text, size_t count, size_t begin)
{
    size_t end = 0;
    assert_int_equal(piece_matcher_next(matcher, (text_span){text, count}, begin, &end), QSA_OK);
    assert_true(end > begin && end <= count);
    return end;
}

/* Expected: the pieces, with '|' between them. */
static void expect_pieces(const char *kind, const char *text, const char *expected)
{
    pre_tokenizer *pre;
    piece_matcher *matcher;
    char found[256] = "";
    size_t count = strlen(text);
    assert_int_equal(pre_tokenizer_create(kind, &pre), QSA_OK);
    assert_int_equal(piece_matcher_create(pre, &matcher), QSA_OK);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = next_end(matcher, text, count, begin);
        strncat(found, text + begin, end - begin);
        strcat(found, end < count ? "|" : "");
    }
    assert_string_equal(found, expected);
    piece_matcher_destroy(matcher);
    pre_tokenizer_destroy(pre);
}

static void pieces_follow_the_rules_of_both_kinds(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"I'll don't WE'RE x'Sy", "I|'ll| don|'t| WE|'RE| x|'S|y"},
        {"'\xc5\xbfx", "'\xc5\xbf|x"}, /* the long s is an s */
        {"abc123 4", "abc|1|2|3| |4"},
        {"(word) .word\tword", "(word|)| .|word|\tword"},
        {"a == b;\n\nc", "a| ==| b|;\n\n|c"},
        {"a  b   \n  c", "a| | b|   \n| | c"},
        {"a \r\n\n  \n x", "a| \r\n\n  \n| x"},
        {"end  ", "end|  "},
        {"\xc2\xa0\xe3\x80\x80x", "\xc2\xa0|\xe3\x80\x80x"},        /* both are space */
        {"\xc2\x85\xe2\x80\xa8", "\xc2\x85\xe2\x80\xa8"},           /* space, but no line ends */
        {"\xe2\x80\x8b\xe2\x80\x8b!", "\xe2\x80\x8b\xe2\x80\x8b!"}, /* zero width: a sign like others */
        {"\xe1\xa0\x8e\xe1\xa0\x8e!", "\xe1\xa0\x8e\xe1\xa0\x8e!"}, /* U+180E is no space */
        {"\xd9\xa1\xe2\x85\xa7", "\xd9\xa1|\xe2\x85\xa7"},          /* a digit, a number letter */
    };
    for (size_t i = 0; i < COUNT(same); i++) {
        expect_pieces("qwen35", same[i][0], same[i][1]);
        expect_pieces("qwen2", same[i][0], same[i][1]);
    }
}

static void pieces_of_the_two_kinds_differ_in_marks(void **state)
{
    (void)state;
    expect_pieces("qwen35", "x\xcc\xa7y \xcc\xa7\xcc\xa7z", "x\xcc\xa7y| \xcc\xa7\xcc\xa7z");
    expect_pieces("qwen2", "x\xcc\xa7y \xcc\xa7\xcc\xa7z", "x|\xcc\xa7y| \xcc\xa7\xcc\xa7|z");
    expect_pieces("qwen35", "!\xcc\xa7", "!\xcc\xa7");
    expect_pieces("qwen2", "\xcc\xa7", "\xcc\xa7");
}

/* The rules as they are usually written, with PCRE2's own classes and without possessive repeats. */
static const char *const USUAL[][2] = {
    {"qwen35",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*"
     "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
              "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

static size_t random_words(uint64_t *seed, char *text)
{
    static const char *const units[] = {"a",
                                        "B",
                                        "'",
                                        "s",
                                        "ll",
                                        " ",
                                        " ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "1",
                                        "!",
                                        "\xcc\x81",
                                        "\xc2\xa0",
                                        "\xc2\x85",
                                        "\xe2\x80\xa8",
                                        "\xe4\xbb\x8a",
                                        "\xd9\xa1",
                                        "\xf0\x9f\x98\x80",
                                        "\xc5\xbf"};
    size_t count = 0, wanted = next_random(seed) % 24;
    for (size_t i = 0; i < wanted; i++) {
        const char *unit = units[next_random(seed) % COUNT(units)];
        memcpy(text + count, unit, strlen(unit));
        count += strlen(unit);
    }
    return count;
}

static void pieces_are_those_of_the_usual_patterns(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < COUNT(USUAL); kind++) {
        int error;
        size_t at;
        pre_tokenizer *pre;
        piece_matcher *matcher;
        pcre2_code *code = pcre2_compile((PCRE2_SPTR)USUAL[kind][1], PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, NULL);
        assert_non_null(code);
        pcre2_match_data *data = pcre2_match_data_create(1, NULL);
        assert_int_equal(pre_tokenizer_create(USUAL[kind][0], &pre), QSA_OK);
        assert_int_equal(piece_matcher_create(pre, &matcher), QSA_OK);
        for (uint64_t round = 0; round < 20000; round++) {
            char text[256];
            uint64_t seed = round;
            size_t count = random_words(&seed, text);
            for (size_t begin = 0; begin < count;) {
                assert_true(pcre2_match(code, (PCRE2_SPTR)text, count, begin, 0, data, NULL) >= 0);
                size_t end = next_end(matcher, text, count, begin);
                if (end != pcre2_get_ovector_pointer(data)[1])
                    fail_msg("%s, seed %llu, byte %zu", USUAL[kind][0], (unsigned long long)round, begin);
                begin = end;
            }
        }
        piece_matcher_destroy(matcher);
        pre_tokenizer_destroy(pre);
        pcre2_match_data_free(data);
        pcre2_code_free(code);
    }
}

/* PCRE2 by itself gives up after ten million steps. */
static void pieces_may_be_very_long(void **state)
{
    (void)state;
    enum { BYTES = 12 << 20 };
    static const char *const units[] = {"a", " ", "\n", "!", " \n"};
    char *text = test_alloc(BYTES, 1);
    pre_tokenizer *pre;
    piece_matcher *matcher;
    assert_int_equal(pre_tokenizer_create("qwen35", &pre), QSA_OK);
    assert_int_equal(piece_matcher_create(pre, &matcher), QSA_OK);
    for (size_t i = 0; i < COUNT(units); i++) {
        size_t unit = strlen(units[i]);
        for (size_t at = 0; at < BYTES; at += unit)
            memcpy(text + at, units[i], unit);
        assert_int_equal(next_end(matcher, text, BYTES, 0), BYTES);
    }
    piece_matcher_destroy(matcher);
    pre_tokenizer_destroy(pre);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_knows_every_character_and_no_other),
        cmocka_unit_test(utf8_cuts_broken_text_into_maximal_subparts),
        cmocka_unit_test(stream_prints_the_same_however_text_arrives),
        cmocka_unit_test(stream_prints_whole_characters_only),
        cmocka_unit_test(decoder_refuses_what_is_no_token_and_goes_on),
        cmocka_unit_test(nfc_composes_and_orders),
        cmocka_unit_test(nfc_orders_a_long_run_of_marks),
        cmocka_unit_test(pieces_follow_the_rules_of_both_kinds),
        cmocka_unit_test(pieces_of_the_two_kinds_differ_in_marks),
        cmocka_unit_test(pieces_are_those_of_the_usual_patterns),
        cmocka_unit_test(pieces_may_be_very_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
