/* SPDX-License-Identifier: Apache-2.0 */
/* Every instruction set gives the definition's bits: every format, odd shapes, hostile numbers, any cut of the work.
 *
 * usage: test_products [SEED]      a failure prints the seed that repeats it */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "support.h"

#include "products/products.h"
#include "random_product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 20261130;

/* Multiplies with `table`, the work cut at random, and gives y. Free with free(). */
static float *multiplied(const qsa_products *table, random_source *random, const random_product *p)
{
    size_t n = p->pairs * p->product.y_stride;
    float *y = test_alloc(n + 1, sizeof *y);
    for (size_t i = 0; i <= n; i++)
        y[i] = -77.0f; /* what lies between rows must stay */
    qsa_product product = p->product;
    product.y = y;
    size_t tiles = qsa_product_tiles(&product);
    for (size_t begin = 0, end; begin < tiles; begin = end) {
        end = random_chance(random, 2) ? tiles : random_between(random, begin + 1, tiles);
        table->multiply(&product, begin, end);
    }
    return y;
}

static void quantised(const qsa_products *table, const random_product *p, qsa_column_block *out)
{
    qsa_columns columns = p->columns;
    columns.blocks = out;
    memset(out, 0x5a, qsa_columns_bytes(columns.inner, columns.count));
    table->quantise(&columns, 0, columns.count / 2);
    table->quantise(&columns, columns.count / 2, columns.count);
}

/* NaN in one place for NaN in the other; everything else to the last bit. */
static void same_blocks(const char *isa, const qsa_column_block *expected, const qsa_column_block *actual, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        qsa_column_block a = expected[i], b = actual[i];
        if (isnan(a.scale) && isnan(b.scale) && isnan(b.scaled_sum) && isnan(b.scaled_half_sum[0]) &&
            isnan(b.scaled_half_sum[1])) {
            a.scale = a.scaled_sum = a.scaled_half_sum[0] = a.scaled_half_sum[1] = 0.0f;
            b.scale = b.scaled_sum = b.scaled_half_sum[0] = b.scaled_half_sum[1] = 0.0f;
        }
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("%s: column block %zu differs", isa, i);
    }
}

static void quantise_like_the_definition(const random_product *p)
{
    size_t n = p->columns.inner / 32 * p->columns.count;
    qsa_column_block *other = aligned_alloc(64, qsa_columns_bytes(p->columns.inner, p->columns.count));
    const qsa_products *table;
    for (size_t i = 1; (table = qsa_products_available(i)) != NULL; i++) {
        quantised(table, p, other);
        same_blocks(table->variant, p->columns.blocks, other, n);
    }
    free(other);
}

static void multiply_like_the_definition(random_source *random, qsa_format format, product_shape shape, bool wild)
{
    char what[160];
    random_product p;
    random_product_make(random, format, shape, wild, &p);
    if (p.columns.blocks) {
        quantised(qsa_products_available(0), &p, p.columns.blocks);
        quantise_like_the_definition(&p);
    }
    float *expected = multiplied(qsa_products_available(0), random, &p);
    const qsa_products *table;
    for (size_t i = 1; (table = qsa_products_available(i)) != NULL; i++) {
        snprintf(what, sizeof what, "%s, seed %llu, rows %zu, inner %zu, columns %zu, experts %zu%s", table->variant,
                 (unsigned long long)seed, shape.rows, shape.inner, shape.columns, shape.experts, wild ? ", wild" : "");
        float *actual = multiplied(table, random, &p);
        same_products(qsa_format_find(format)->name, what, expected, actual, p.pairs * p.product.y_stride + 1);
        free(actual);
    }
    free(expected);
    random_product_free(&p);
}

typedef void format_check(random_source *random, qsa_format format, size_t block);

static void for_every_format(format_check *check)
{
    for (uint32_t type = 0; type < QSA_FORMAT_END; type++) {
        const qsa_format_facts *facts = qsa_format_find(type);
        random_source random = {.state = seed + type};
        if (facts)
            check(&random, (qsa_format)type, facts->block_weights);
    }
}

/* A multiple of the block that is at most `most`; of floats any number. */
static size_t random_inner(random_source *random, size_t block, size_t most)
{
    return block * random_between(random, 1, most / block);
}

static void random_shapes(random_source *random, qsa_format format, size_t block)
{
    for (size_t i = 0; i < 24; i++) {
        product_shape shape = {random_between(random, 1, 90), random_inner(random, block, 768),
                               random_chance(random, 4) ? 1 : random_between(random, 1, 70), 0};
        multiply_like_the_definition(random, format, shape, i % 3 == 2);
    }
}

static void every_shape_gives_the_bits_of_the_definition(void **state)
{
    (void)state;
    for_every_format(random_shapes);
}

static void model_shapes(random_source *random, qsa_format format, size_t block)
{
    static const product_shape shapes[] = {{17, 10240, 3, 0}, {33, 640, 300, 0}, {48, 2560, 1, 0}, {5, 320, 65, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        product_shape shape = shapes[i];
        if (shape.inner % block != 0)
            shape.inner = (shape.inner / block + 1) * block;
        multiply_like_the_definition(random, format, shape, false);
    }
}

static void widths_of_models_give_the_bits_of_the_definition(void **state)
{
    (void)state;
    for_every_format(model_shapes);
}

static void expert_shapes(random_source *random, qsa_format format, size_t block)
{
    for (size_t i = 0; i < 6; i++) {
        product_shape shape = {random_between(random, 1, 80), random_inner(random, block, 512),
                               i == 0 ? 1 : random_between(random, 1, 40), random_between(random, 1, 8)};
        multiply_like_the_definition(random, format, shape, i % 3 == 2);
    }
}

static void experts_give_the_bits_of_the_definition(void **state)
{
    (void)state;
    for_every_format(expert_shapes);
}

/* ---- Which tables there are ---- */

static bool is_offered(const char *variant)
{
    const qsa_products *table;
    for (size_t i = 0; (table = qsa_products_available(i)) != NULL; i++)
        if (strcmp(table->variant, variant) == 0)
            return true;
    return false;
}

/* By the compiler's word, not by that of base/isa.c. */
static void the_tables_are_those_of_this_machine(void **state)
{
    (void)state;
    assert_string_equal(qsa_products_available(0)->variant, "scalar");
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_int_equal(is_offered("avx2"), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(is_offered("avx512 vnni"),
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"));
#elif defined(__aarch64__)
    assert_true(is_offered("neon"));
#endif
}

static void a_named_instruction_set_is_given_or_none(void **state)
{
    (void)state;
    static const char *const names[] = {"scalar", "avx2", "avx512", "neon", "avx512 vnni", ""};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        setenv("QSA_ISA", names[n], 1);
        bool offered = false;
        const qsa_products *table;
        for (size_t i = 0; (table = qsa_products_available(i)) != NULL; i++)
            offered |= strcmp(table->isa, names[n]) == 0;
        const char *wanted;
        const qsa_products *chosen = qsa_products_choose(&wanted);
        assert_string_equal(wanted, names[n]);
        assert_int_equal(chosen != NULL, offered);
        if (chosen)
            assert_string_equal(chosen->isa, names[n]);
    }
    unsetenv("QSA_ISA");
}

/* ---- The definition itself ---- */

/* Experts, and columns among others, give what each pair gives alone. */
static void alone_like_together(random_source *random, qsa_format format, size_t block)
{
    random_product p;
    random_product_make(random, format, (product_shape){7, block * (256 / block), 9, 5}, false, &p);
    const qsa_products *scalar = qsa_products_available(0);
    if (p.columns.blocks)
        quantised(scalar, &p, p.columns.blocks);
    float *together = multiplied(scalar, random, &p);
    for (uint32_t e = 0; e < p.product.experts; e++)
        for (uint32_t pair = p.first[e]; pair < p.first[e + 1]; pair++) {
            qsa_product one = p.product;
            float y[7];
            one.weights.data = p.weights + 1 + e * p.product.expert_bytes;
            one.experts = 0;
            qsa_columns column = {p.columns.inner, 1, p.values + p.column[pair] * p.columns.stride, 0, NULL};
            qsa_column_block blocks[256 / 32];
            column.blocks = blocks;
            one.columns = &column;
            one.column = NULL;
            one.y = y;
            if (p.columns.blocks)
                scalar->quantise(&column, 0, 1);
            scalar->multiply(&one, 0, 1);
            same_products(qsa_format_find(format)->name, "a pair alone", y, together + pair * p.product.y_stride, 7);
        }
    free(together);
    random_product_free(&p);
}

static void a_pair_gives_alone_what_it_gives_among_others(void **state)
{
    (void)state;
    for_every_format(alone_like_together);
}

/* ---- The comparison can fail ---- */

/* A planted fault: a column's sum is one unit too large. */
static void a_fault_of_one_unit_is_seen(void **state)
{
    (void)state;
    random_source random = {.state = seed};
    random_product p;
    random_product_make(&random, QSA_FORMAT_Q4_K, (product_shape){16, 256, 4, 0}, false, &p);
    quantised(qsa_products_available(0), &p, p.columns.blocks);
    float *expected = multiplied(qsa_products_available(0), &random, &p);
    p.columns.blocks[2].q[5]++;
    float *actual = multiplied(qsa_products_available(0), &random, &p);
    size_t stride = p.product.y_stride;
    assert_memory_equal(expected, actual, 2 * stride * sizeof(float)); /* other columns do not notice */
    assert_memory_not_equal(expected + 2 * stride, actual + 2 * stride, 16 * sizeof(float));
    free(expected);
    free(actual);
    random_product_free(&p);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_are_those_of_this_machine),
        cmocka_unit_test(a_named_instruction_set_is_given_or_none),
        cmocka_unit_test(every_shape_gives_the_bits_of_the_definition),
        cmocka_unit_test(widths_of_models_give_the_bits_of_the_definition),
        cmocka_unit_test(experts_give_the_bits_of_the_definition),
        cmocka_unit_test(a_pair_gives_alone_what_it_gives_among_others),
        cmocka_unit_test(a_fault_of_one_unit_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
