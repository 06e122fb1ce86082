/* SPDX-License-Identifier: Apache-2.0 */
/* Every format of the table is read as ggml reads it, to the last bit. */
#include "support.h"

#include "products/products.h"
#include "random_values.h"

#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 4096 };

/* Fails at the first number that differs; one NaN is like another. */
static void same_numbers(const char *format, const float *expected, const float *actual, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (test_bits(expected[i]) != test_bits(actual[i]) && !(isnan(expected[i]) && isnan(actual[i])))
            fail_msg("%s: weight %zu is %a (ggml: %a)", format, i, (double)actual[i], (double)expected[i]);
}

static void reads_like_ggml(uint32_t type)
{
    const qsa_format_facts *facts = qsa_format_find(type);
    const struct ggml_type_traits *traits = ggml_get_type_traits((enum ggml_type)type);
    assert_string_equal(facts->name, traits->type_name);
    assert_int_equal(facts->block_weights, traits->blck_size);
    assert_int_equal(facts->block_bytes, traits->type_size);

    size_t n = (size_t)BLOCKS * facts->block_weights, bytes = (size_t)BLOCKS * facts->block_bytes;
    random_source random = {.state = type + 1};
    uint8_t *row = test_alloc(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)random_next(&random);
    float *expected = test_alloc(n, sizeof *expected), *actual = test_alloc(n, sizeof *actual);
    if (traits->to_float)
        traits->to_float(row, expected, (int64_t)n);
    else
        memcpy(expected, row, bytes); /* f32 */
    qsa_weights weights = {.format = (qsa_format)type, .rows = 1, .inner = n, .data = row, .row_bytes = bytes};
    assert_int_equal(qsa_format_row_bytes(weights.format, n), bytes);
    qsa_weights_row(&weights, 0, actual);
    same_numbers(facts->name, expected, actual, n);
    free(row);
    free(expected);
    free(actual);
}

static void every_format_is_read_like_ggml_does(void **state)
{
    (void)state;
    size_t found = 0;
    for (uint32_t type = 0; type < 2 * QSA_FORMAT_END; type++)
        if (qsa_format_find(type)) {
            reads_like_ggml(type);
            found++;
        }
    assert_int_equal(found, 24);
}

static void other_numbers_are_no_formats(void **state)
{
    (void)state;
    static const uint32_t others[] = {GGML_TYPE_Q8_1,  GGML_TYPE_Q8_K,  GGML_TYPE_I32,
                                      GGML_TYPE_TQ1_0, GGML_TYPE_COUNT, UINT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(qsa_format_find(others[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_read_like_ggml_does),
        cmocka_unit_test(other_numbers_are_no_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
