/* SPDX-License-Identifier: Apache-2.0 */
/* Which table of kernels is chosen, and that none is chosen in silence in place of the one asked for. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "support.h"

#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

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
        for (int type = 0; type < QSA_ELEMENT_COUNT; type++) {
            if (type < QSA_INDEX_ELEMENT_COUNT)
                assert_non_null(k->score[type]);
            assert_non_null(k->dots[type]);
            assert_non_null(k->accumulate[type]);
        }
        assert_non_null(k->weights);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_comes_first),
        cmocka_unit_test(every_table_is_full),
        cmocka_unit_test(the_last_table_is_the_default),
        cmocka_unit_test(the_environment_pins_a_table),
        cmocka_unit_test(an_unknown_table_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
