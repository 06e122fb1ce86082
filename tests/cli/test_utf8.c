/* Text that arrives in pieces: what is whole, and what stands for broken bytes. */
#include "console/utf8.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static void whole_ends_before_a_cut_character(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t whole;
    } cases[] = {
        {"", 0},
        {"abc", 3},
        {"a\xe4", 1},
        {"a\xe4\xbb", 1},
        {"a\xe4\xbb\x8a", 4},
        {"\xf0\x9f\x98", 0},
        {"\xf0\x9f\x98\x80", 4},
        {"\xc3", 0},
        {"\xc3\xa9\xc3", 2},
        {"\x80", 1},         /* belongs to no character */
        {"\xff\xfe", 2},     /* nor do these */
        {"\xe4\x41", 2},     /* broken off by another character */
        {"\xed\xa0", 2},     /* a surrogate: never a character */
        {"\xc0\x80", 2},     /* overlong */
        {"\xf4\x90\x80", 3}, /* beyond U+10FFFF */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(utf8_whole(cases[i].bytes, strlen(cases[i].bytes)), cases[i].whole);
}

static void lossy_replaces_each_broken_sequence_once(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"", ""},
        {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"a\xe4\xbb", "a\xef\xbf\xbd"},
        {"\xe4\xbb"
         "b",
         "\xef\xbf\xbd"
         "b"},
        {"\xff\xff", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n;
        char *text = utf8_lossy(cases[i].bytes, strlen(cases[i].bytes), &n);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, n + 1);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_ends_before_a_cut_character),
        cmocka_unit_test(lossy_replaces_each_broken_sequence_once),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
