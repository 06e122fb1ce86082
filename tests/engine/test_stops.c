/* Stop strings: beside a slow search of the whole text, for every way of cutting it. */
#include "base/error.h"
#include "base/splitmix64.h"
#include "support.h"

#include <qsa_engine.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STOPS = 3, MAX_TEXT = 24, MAX_STOP = 5 };

static size_t below(uint64_t *random, size_t n)
{
    return (size_t)(splitmix64_next(random) % n);
}

/* What a text shows, and what ends it. */
typedef struct shown {
    size_t length; /* of the text before a stop string, or all of it */
    bool is_stopped;
    size_t stop;
} shown;

static bool ends_with(const char *text, size_t n, const char *word)
{
    const size_t length = strlen(word);
    return length <= n && memcmp(text + n - length, word, length) == 0;
}

static shown search(const char *text, size_t n, const char *const *stops, size_t n_stops)
{
    for (size_t end = 1; end <= n; end++) {
        shown best = {end, false, 0};
        for (size_t i = 0; i < n_stops; i++)
            if (ends_with(text, end, stops[i]) && end - strlen(stops[i]) < best.length)
                best = (shown){end - strlen(stops[i]), true, i};
        if (best.is_stopped)
            return best;
    }
    return (shown){n, false, 0};
}

/* Bytes at the end of a text without stop strings with which one begins. */
static size_t beginning(const char *text, size_t n, const char *const *stops, size_t n_stops)
{
    size_t longest = 0;
    for (size_t i = 0; i < n_stops; i++)
        for (size_t length = 1; length < strlen(stops[i]) && length <= n; length++)
            if (memcmp(text + n - length, stops[i], length) == 0 && length > longest)
                longest = length;
    return longest;
}

/* Feeds the text in pieces; after each, exactly what is certain was given out. */
static void check(const char *text, size_t n, const char *const *stops, size_t n_stops, uint64_t *random)
{
    qsa_stops *s;
    char out[MAX_TEXT];
    size_t n_out = 0, index;
    assert_int_equal(qsa_stops_create(stops, n_stops, &s), QSA_OK);
    for (size_t at = 0; at < n;) {
        const size_t piece = 1 + below(random, 4), length = piece < n - at ? piece : n - at;
        const char *given, *held;
        size_t n_given, n_held;
        assert_int_equal(qsa_stops_take(s, text + at, length, &given, &n_given), QSA_OK);
        at += length;
        assert_true(n_out + n_given <= MAX_TEXT);
        memcpy(out + n_out, given, n_given);
        n_out += n_given;
        const shown wanted = search(text, at, stops, n_stops);
        const size_t more = wanted.is_stopped ? 0 : beginning(text, at, stops, n_stops);
        assert_int_equal(n_out, wanted.length - more);
        assert_memory_equal(out, text, n_out);
        assert_int_equal(qsa_stops_found(s, &index), wanted.is_stopped);
        if (wanted.is_stopped)
            assert_string_equal(stops[index], stops[wanted.stop]);
        qsa_stops_held(s, &held, &n_held);
        assert_int_equal(n_held, more);
        assert_memory_equal(held, text + n_out, more);
    }
    qsa_stops_destroy(s);
}

static void what_is_shown_is_what_a_search_finds(void **state)
{
    (void)state;
    uint64_t random = 11;
    int stopped = 0;
    for (int round = 0; round < 20000; round++) {
        char words[MAX_STOPS][MAX_STOP + 1], text[MAX_TEXT];
        const char *stops[MAX_STOPS];
        const size_t n_stops = below(&random, MAX_STOPS + 1), n = below(&random, MAX_TEXT + 1);
        for (size_t i = 0; i < n_stops; i++) {
            const size_t length = 1 + below(&random, MAX_STOP);
            for (size_t k = 0; k < length; k++)
                words[i][k] = (char)('a' + below(&random, 2));
            words[i][length] = '\0';
            stops[i] = words[i];
        }
        for (size_t k = 0; k < n; k++)
            text[k] = (char)('a' + below(&random, 2));
        check(text, n, stops, n_stops, &random);
        stopped += search(text, n, stops, n_stops).is_stopped;
    }
    assert_in_range(stopped, 5000, 18000); /* both ends are common */
}

static void after_a_stop_nothing_is_shown(void **state)
{
    (void)state;
    qsa_stops *s;
    const char *text;
    size_t n, index = 9;
    assert_int_equal(qsa_stops_create((const char *const[]){"xx", "END"}, 2, &s), QSA_OK);
    assert_false(qsa_stops_found(s, &index));
    assert_int_equal(index, 9);
    assert_int_equal(qsa_stops_take(s, "one EN", 6, &text, &n), QSA_OK);
    assert_int_equal(n, 4);
    assert_int_equal(qsa_stops_take(s, "D two", 5, &text, &n), QSA_OK);
    assert_int_equal(n, 0);
    assert_true(qsa_stops_found(s, &index));
    assert_true(qsa_stops_found(s, NULL));
    assert_int_equal(index, 1);
    assert_int_equal(qsa_stops_take(s, " three", 6, &text, &n), QSA_OK);
    assert_int_equal(n, 0);
    qsa_stops_held(s, &text, &n);
    assert_int_equal(n, 0);
    qsa_stops_destroy(s);
    qsa_stops_destroy(NULL);
}

static void empty_strings_are_refused(void **state)
{
    (void)state;
    qsa_stops *s = NULL;
    assert_int_equal(qsa_stops_create((const char *const[]){"a", ""}, 2, &s), QSA_E_ARGUMENT);
    assert_non_null(strstr(engine_error_detail(), "stop string 1 is empty"));
    assert_int_equal(qsa_stops_create(NULL, 1, &s), QSA_E_ARGUMENT);
    assert_int_equal(qsa_stops_create(NULL, 0, NULL), QSA_E_ARGUMENT);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_shown_is_what_a_search_finds),
        cmocka_unit_test(after_a_stop_nothing_is_shown),
        cmocka_unit_test(empty_strings_are_refused),
    };
    return cmocka_run_group_tests_name("stops", tests, NULL, NULL);
}
