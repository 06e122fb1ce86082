/* SPDX-License-Identifier: Apache-2.0 */
/* Which table of kernels is chosen, and that none is chosen in silence in place of the one asked for.
 *
 * usage: test_dispatch [TABLE]      with a name: whether that table runs here; exits with 77, skipped, if it does not
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "support.h"

#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

/* Every table there is, on any machine. */
static const char *const ALL[] = {"scalar", "avx2", "avx512", "neon"};
enum { ALL_COUNT = sizeof ALL / sizeof ALL[0] };

/* Those that this machine must offer, in order, by the compiler's word and not by that of dispatch.c; how many. */
static size_t expected_tables(const char *names[ALL_COUNT])
{
    size_t n = 0;
    names[n++] = "scalar";
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2)
        names[n++] = "avx2";
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        names[n++] = "avx512";
#elif defined(__aarch64__)
    names[n++] = "neon";
#endif
    return n;
}

static bool offered(const char *name)
{
    const qsa_kernels *k;
    for (size_t i = 0; (k = qsa_kernels_available(i)) != NULL; i++)
        if (strcmp(k->isa, name) == 0)
            return true;
    return false;
}

static void the_tables_are_those_of_this_machine(void **state)
{
    (void)state;
    const char *expected[ALL_COUNT];
    const size_t n = expected_tables(expected);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(qsa_kernels_available(i));
        assert_string_equal(qsa_kernels_available(i)->isa, expected[i]);
    }
    assert_null(qsa_kernels_available(n));
    size_t missing = 0;
    for (size_t i = 0; i < ALL_COUNT; i++)
        missing += !offered(ALL[i]);
    assert_int_equal(missing, ALL_COUNT - n);
}

static void a_table_of_another_machine_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ALL_COUNT; i++) {
        const char *wanted = NULL;
        setenv("QSA_ISA", ALL[i], 1);
        const qsa_kernels *chosen = qsa_kernels_choose(&wanted);
        assert_string_equal(wanted, ALL[i]);
        if (offered(ALL[i]))
            assert_string_equal(chosen->isa, ALL[i]);
        else
            assert_null(chosen);
    }
}

static void scalar_comes_first(void **state)
{
    (void)state;
    assert_string_equal(qsa_kernels_available(0)->isa, "scalar");
}

static void every_table_is_full(void **state)
{
    (void)state;
    const qsa_kernels *k;
    for (size_t i = 0; (k = qsa_kernels_available(i)) != NULL; i++) {
        assert_non_null(k->score);
        assert_non_null(k->offer);
        assert_non_null(k->keep);
        assert_non_null(k->qk);
        assert_non_null(k->softmax);
        assert_non_null(k->pv);
        assert_non_null(k->norm_rotate);
        assert_non_null(k->check);
        assert_non_null(k->to_bf16);
    }
}

static void the_last_table_is_the_default(void **state)
{
    (void)state;
    const char *wanted = "";
    unsetenv("QSA_ISA");
    const qsa_kernels *chosen = qsa_kernels_choose(&wanted);
    size_t i = 0;
    while (qsa_kernels_available(i + 1))
        i++;
    assert_ptr_equal(chosen, qsa_kernels_available(i));
    assert_null(wanted);
}

static void the_environment_pins_a_table(void **state)
{
    (void)state;
    const qsa_kernels *k;
    for (size_t i = 0; (k = qsa_kernels_available(i)) != NULL; i++) {
        const char *wanted = NULL;
        setenv("QSA_ISA", k->isa, 1);
        assert_ptr_equal(qsa_kernels_choose(&wanted), k);
        assert_string_equal(wanted, k->isa);
    }
}

static void an_unknown_table_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "AVX2", "scalar ", "avx", "neon512"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *wanted = NULL;
        setenv("QSA_ISA", names[i], 1);
        assert_null(qsa_kernels_choose(&wanted));
        assert_string_equal(wanted, names[i]);
    }
}

static int skip_unless_offered(const char *name)
{
    if (offered(name))
        return 0;
    printf("SKIP: the table '%s' is not built for this machine, or its processor lacks what it needs\n", name);
    return SKIPPED;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return skip_unless_offered(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_are_those_of_this_machine),
        cmocka_unit_test(a_table_of_another_machine_is_refused),
        cmocka_unit_test(scalar_comes_first),
        cmocka_unit_test(every_table_is_full),
        cmocka_unit_test(the_last_table_is_the_default),
        cmocka_unit_test(the_environment_pins_a_table),
        cmocka_unit_test(an_unknown_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
