/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers: exact size, vaults that occur once, questions with one answer. */
#include "support.h"

#include "base/error.h"
#include "make/ledger.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- what the linker puts before the engine's calls ---- */

static size_t allocations_left = SIZE_MAX; /* before one fails */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left != SIZE_MAX)
        allocations_left--;
    return __real_malloc(size);
}

/* ---- ledgers ---- */

static char *ledger_of(uint64_t seed, size_t size)
{
    char *text;
    assert_int_equal(ledger_create(seed, size, &text), QSA_OK);
    return text;
}

static void ledger_has_exactly_its_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 42, 43, 44, 85, 86, 4096, 32768, 262144, LEDGER_MAX_BYTES};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *text = ledger_of(1, sizes[i]);
        assert_int_equal(strlen(text), sizes[i]);
        free(text);
    }
}

static void size_out_of_range_is_refused(void **state)
{
    (void)state;
    char untouched, *text = &untouched;
    assert_int_equal(ledger_create(1, 0, &text), QSA_E_ARGUMENT);
    assert_int_equal(ledger_create(1, LEDGER_MAX_BYTES + 1, &text), QSA_E_ARGUMENT);
    assert_non_null(strstr(engine_error_detail(), "430001"));
    assert_ptr_equal(text, &untouched);
}

static void no_vault_occurs_twice(void **state)
{
    (void)state;
    char *text = ledger_of(3, LEDGER_MAX_BYTES);
    bool seen[10000] = {false};
    size_t in_order = 0;
    for (int line = 0, last = 0; line < 10000; line++) {
        int vault, code, end = 0;
        const char *at = text + line * LEDGER_LINE_BYTES;
        assert_int_equal(sscanf(at, "The access code of vault %4d is %8d.%n", &vault, &code, &end), 2);
        assert_int_equal(end, LEDGER_LINE_BYTES - 1);
        assert_int_equal(at[end], '\n');
        assert_false(seen[vault]);
        seen[vault] = true;
        in_order += vault > last;
        last = vault;
    }
    assert_in_range(in_order, 4000, 6000);
    free(text);
}

static void seed_decides_the_ledger(void **state)
{
    (void)state;
    char *one = ledger_of(1, 5000), *again = ledger_of(1, 5000), *other = ledger_of(2, 5000);
    assert_memory_equal(one, again, 5000);
    assert_memory_not_equal(one, other, 5000);
    free(one);
    free(again);
    free(other);
}

static void shorter_ledger_begins_a_longer_one(void **state)
{
    (void)state;
    char *longer = ledger_of(4, 32768), *shorter = ledger_of(4, 1000);
    assert_memory_equal(longer, shorter, 1000);
    free(longer);
    free(shorter);
}

/* ---- questions ---- */

static size_t count_occurrences(const char *text, const char *part, size_t n)
{
    size_t found = 0;
    for (const char *p = text; strlen(p) >= n && (p = strchr(p, part[0])); p++)
        found += strncmp(p, part, n) == 0;
    return found;
}

/* Every context of an answer must occur once in the text, followed by the answer's next byte. */
static void check_question(const char *text, const ledger_question *question, size_t context)
{
    char line[64];
    snprintf(line, sizeof line, "%.47s%.15s", question->prompt, question->answer);
    assert_int_equal(strlen(line), LEDGER_LINE_BYTES - 1);
    assert_int_equal(count_occurrences(text, line, strlen(line)), 1);
    for (size_t end = strlen(question->prompt); end < strlen(line); end++)
        assert_int_equal(count_occurrences(text, line + end - context, context), 1);
}

static void questions_have_one_answer(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint32_t context;
    } cases[] = {{1000, 9}, {4096, 9}, {4096, 18}, {32768, 18}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = ledger_of(i, cases[i].size);
        ledger_question questions[8];
        assert_int_equal(ledger_ask(text, cases[i].size, cases[i].context, i, 8, questions), QSA_OK);
        for (size_t q = 0; q < 8; q++) {
            check_question(text, &questions[q], cases[i].context);
            for (size_t other = 0; other < q; other++)
                assert_string_not_equal(questions[q].prompt, questions[other].prompt);
        }
        free(text);
    }
}

static void seed_decides_the_questions(void **state)
{
    (void)state;
    char *text = ledger_of(1, 32768);
    ledger_question one[8], again[8], other[8];
    assert_int_equal(ledger_ask(text, 32768, 18, 1, 8, one), QSA_OK);
    assert_int_equal(ledger_ask(text, 32768, 18, 1, 8, again), QSA_OK);
    assert_int_equal(ledger_ask(text, 32768, 18, 2, 8, other), QSA_OK);
    assert_memory_equal(one, again, sizeof one);
    assert_memory_not_equal(one, other, sizeof one);
    free(text);
}

/* The full budget of 262,144 tokens: 6,096 whole lines, and each of them may be asked about with 18 bytes. */
static void longest_context_has_questions(void **state)
{
    (void)state;
    char *text = ledger_of(1, 262144);
    ledger_question questions[16];
    assert_int_equal(ledger_ask(text, 262144, 18, 9, 16, questions), QSA_OK);
    free(text);
}

static void cut_line_is_never_asked_about(void **state)
{
    (void)state;
    const size_t size = 3 * LEDGER_LINE_BYTES + 42;
    char *text = ledger_of(6, size);
    ledger_question questions[4], before[4];
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(ledger_ask(text, size, 18, seed, 3, questions), QSA_OK);
        for (int q = 0; q < 3; q++)
            assert_true(strstr(text, questions[q].prompt) < text + 3 * LEDGER_LINE_BYTES);
    }
    memcpy(before, questions, sizeof before);
    assert_int_equal(ledger_ask(text, size, 18, 1, 4, questions), QSA_E_ARGUMENT);
    assert_non_null(strstr(engine_error_detail(), "have 3;"));
    assert_memory_equal(before, questions, sizeof before);
    free(text);
}

static void line_whose_answer_is_undecided_is_left_out(void **state)
{
    (void)state;
    static const char text[] = "The access code of vault 0001 is 12345678.\n"
                               "The access code of vault 1001 is 12345679.\n"
                               "The access code of vault 5555 is 99999999.\n";
    ledger_question questions[3];
    assert_int_equal(ledger_ask(text, sizeof text - 1, 9, 1, 1, questions), QSA_OK);
    assert_string_equal(questions[0].prompt, "The access code of vault 5555 is");
    assert_string_equal(questions[0].answer, " 99999999.");
    assert_int_equal(ledger_ask(text, sizeof text - 1, 9, 1, 2, questions), QSA_E_ARGUMENT);
    assert_int_equal(ledger_ask(text, sizeof text - 1, 18, 1, 3, questions), QSA_OK);
}

static void other_text_and_contexts_are_refused(void **state)
{
    (void)state;
    ledger_question question;
    char other[LEDGER_LINE_BYTES + 1];
    memset(other, 'x', sizeof other);
    assert_int_equal(ledger_ask(other, LEDGER_LINE_BYTES, 18, 1, 1, &question), QSA_E_ARGUMENT);
    char *text = ledger_of(1, 430);
    assert_int_equal(ledger_ask(text, 430, 0, 1, 1, &question), QSA_E_ARGUMENT);
    assert_int_equal(ledger_ask(text, 430, 33, 1, 1, &question), QSA_E_ARGUMENT);
    assert_int_equal(ledger_ask(text, 430, 18, 1, 0, NULL), QSA_OK);
    free(text);
}

static void failing_memory_is_a_status(void **state)
{
    (void)state;
    char untouched, *text = &untouched;
    for (size_t n = 0; n < 2; n++) {
        allocations_left = n;
        qsa_status status = ledger_create(1, 430, &text);
        allocations_left = SIZE_MAX;
        assert_int_equal(status, QSA_E_MEMORY);
        assert_ptr_equal(text, &untouched);
    }
    text = ledger_of(1, 430);
    ledger_question question;
    allocations_left = 0;
    qsa_status status = ledger_ask(text, 430, 18, 1, 1, &question);
    allocations_left = SIZE_MAX;
    assert_int_equal(status, QSA_E_MEMORY);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ledger_has_exactly_its_size),
        cmocka_unit_test(size_out_of_range_is_refused),
        cmocka_unit_test(no_vault_occurs_twice),
        cmocka_unit_test(seed_decides_the_ledger),
        cmocka_unit_test(shorter_ledger_begins_a_longer_one),
        cmocka_unit_test(questions_have_one_answer),
        cmocka_unit_test(seed_decides_the_questions),
        cmocka_unit_test(longest_context_has_questions),
        cmocka_unit_test(cut_line_is_never_asked_about),
        cmocka_unit_test(line_whose_answer_is_undecided_is_left_out),
        cmocka_unit_test(other_text_and_contexts_are_refused),
        cmocka_unit_test(failing_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
