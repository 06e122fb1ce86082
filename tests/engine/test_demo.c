/* SPDX-License-Identifier: Apache-2.0 */
/* The demo: a model that is made once, in the cache folder, and questions about a ledger. */
#define _POSIX_C_SOURCE 200809L

#include "support.h"

#include "base/error.h"

#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[4096];

static int make_folder(void **state)
{
    (void)state;
    char start[2048];
    if (!getcwd(start, sizeof start))
        return -1;
    snprintf(folder, sizeof folder, "%s/demo.XXXXXX", start);
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void count_call(void *user, const char *path)
{
    (void)path;
    ++*(int *)user;
}

static void remove_below(const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

static void model_is_made_once(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", folder, 1);
    int made = 0;
    char *first, *second;
    assert_int_equal(qsa_demo_model(count_call, &made, &first), QSA_OK);
    assert_int_equal(made, 1);
    assert_int_equal(qsa_demo_model(count_call, &made, &second), QSA_OK);
    assert_int_equal(made, 1);
    assert_string_equal(first, second);
    assert_memory_equal(first, folder, strlen(folder));
    assert_int_equal(unlink(first), 0);
    free(first);
    free(second);
    remove_below("qsa");
}

static void damaged_model_is_made_again(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", folder, 1);
    int made = 0;
    char *path;
    assert_int_equal(qsa_demo_model(count_call, &made, &path), QSA_OK);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 1000000, SEEK_SET), 0);
    fputc('x', file);
    fputc('y', file);
    fclose(file);
    free(path);
    assert_int_equal(qsa_demo_model(count_call, &made, &path), QSA_OK);
    assert_int_equal(made, 2);
    assert_int_equal(truncate(path, 4096), 0);
    free(path);
    assert_int_equal(qsa_demo_model(count_call, &made, &path), QSA_OK);
    assert_int_equal(made, 3);
    assert_int_equal(unlink(path), 0);
    free(path);
    remove_below("qsa");
}

static void home_is_used_where_no_cache_is_named(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", folder, 1);
    char *path;
    assert_int_equal(qsa_demo_model(NULL, NULL, &path), QSA_OK);
    assert_non_null(strstr(path, "/.cache/qsa/quoter-"));
    assert_int_equal(unlink(path), 0);
    free(path);
    remove_below(".cache/qsa");
    remove_below(".cache");
}

static void folder_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    char *path = folder;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(qsa_demo_model(NULL, NULL, &path), QSA_E_IO);
    assert_non_null(strstr(engine_error_detail(), "HOME"));
    setenv("XDG_CACHE_HOME", "/dev/null/cache", 1);
    assert_int_equal(qsa_demo_model(NULL, NULL, &path), QSA_E_IO);
    assert_non_null(strstr(engine_error_detail(), "/dev/null"));
    assert_ptr_equal(path, folder);
}

static void ledger_comes_with_questions(void **state)
{
    (void)state;
    char *text;
    qsa_question questions[8];
    assert_int_equal(qsa_demo_ledger(1, 32768, &text, questions, 8), QSA_OK);
    assert_int_equal(strlen(text), 32768);
    for (int i = 0; i < 8; i++) {
        char line[128];
        snprintf(line, sizeof line, "%.63s%.31s\n", questions[i].question, questions[i].expected);
        assert_non_null(strstr(text, line));
    }
    free(text);
}

static void more_questions_than_lines_are_refused(void **state)
{
    (void)state;
    char untouched, *text = &untouched;
    qsa_question questions[3];
    memset(questions, 1, sizeof questions);
    assert_int_equal(qsa_demo_ledger(1, 100, &text, questions, 3), QSA_E_ARGUMENT);
    assert_int_equal(qsa_demo_ledger(1, 100, &text, questions, SIZE_MAX), QSA_E_ARGUMENT);
    assert_int_equal(qsa_demo_ledger(1, 0, &text, questions, 0), QSA_E_ARGUMENT);
    assert_ptr_equal(text, &untouched);
    assert_int_equal(questions[0].question[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_is_made_once),
        cmocka_unit_test(damaged_model_is_made_again),
        cmocka_unit_test(home_is_used_where_no_cache_is_named),
        cmocka_unit_test(folder_that_cannot_be_made_is_named),
        cmocka_unit_test(ledger_comes_with_questions),
        cmocka_unit_test(more_questions_than_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
