/* SPDX-License-Identifier: Apache-2.0 */
/* E2, sine, cosine, powers and the rounding to bf16 (SPEC section 6). `test_elementary --exhaustive` tries E2 on every
 * float from -126 to 0 instead of every 4,099th. */
#include "support.h"

#include "base/elementary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t e2_stride = 4099;

static void e2_gives_the_specified_bits(void **state)
{
    (void)state;
    static const uint32_t table[][2] = {{0xbe800000, 0x3f5744fd}, {0xbf000000, 0x3f3504f4}, {0xc0490fdb, 0x3de8118d},
                                        {0xc124cccd, 0x3a4fefc4}, {0xc2fbfae1, 0x0080e3f8}, {0xc2fc0000, 0x00800000},
                                        {0xc2fc000d, 0x00000000}, {0x80000000, 0x3f800000}, {0x00000000, 0x3f800000},
                                        {0xff800000, 0x00000000}, {0x7fc00000, 0x00000000}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(test_bits(qsa_e2(test_float(table[i][0]))), table[i][1]);
}

static void e2_errs_by_less_than_one_ulp(void **state)
{
    (void)state;
    for (uint32_t bits = 0x80000000u; bits <= 0xc2fc0000u; bits += e2_stride) {
        float x = test_float(bits), found = qsa_e2(x);
        double exact = exp2((double)x), ulp = ldexp(1.0, ilogb(exact) - 23);
        if (!(fabs(found - exact) < ulp) || found > 1.0f)
            fail_msg("E2(%08x) = %08x, 2^x = %.17g", (unsigned)bits, (unsigned)test_bits(found), exact);
    }
}

static void e2_is_zero_below_its_range(void **state)
{
    (void)state;
    for (uint32_t bits = 0xc2fc0001u; bits <= 0xff800000u; bits += e2_stride)
        assert_int_equal(test_bits(qsa_e2(test_float(bits))), 0);
}

static void sin_cos_give_the_specified_bits(void **state)
{
    (void)state;
    static const struct {
        float angle;
        uint32_t sine, cosine;
    } table[] = {{1.0f, 0x3f576aa4, 0x3f0a5140},
                 {1000.0f, 0x3f53ae61, 0x3f0ff813},
                 {262143.0f, 0x3f4b0513, 0xbf1bf202},
                 {0.0f, 0x00000000, 0x3f800000}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        float sine, cosine;
        qsa_sin_cos(table[i].angle, &sine, &cosine);
        assert_int_equal(test_bits(sine), table[i].sine);
        assert_int_equal(test_bits(cosine), table[i].cosine);
    }
}

/* Angles of both signs and all sizes up to 2^24, against the host's sine in the widest type it has. */
static void sin_cos_are_correctly_rounded(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        float angle = golden_value(1, i) * ldexpf(1.0f, (int)(i % 24));
        float sine, cosine;
        qsa_sin_cos(angle, &sine, &cosine);
        if (sine != (float)sinl((long double)angle) || cosine != (float)cosl((long double)angle))
            fail_msg("sin, cos of %a = %a, %a", (double)angle, (double)sine, (double)cosine);
    }
}

static void power_is_correctly_rounded(void **state)
{
    (void)state;
    static const float thetas[] = {1e7f, 1e4f, 5e5f, 1e6f, 2.0f, 1.5f};
    for (size_t t = 0; t < sizeof thetas / sizeof thetas[0]; t++) {
        assert_true(qsa_power(thetas[t], 0.0f) == 1.0f);
        for (int pairs = 1; pairs <= 64; pairs++)
            for (int i = 0; i < pairs; i++) {
                float e = (float)(2 * i) / (float)(2 * pairs);
                float exact = (float)powl((long double)thetas[t], (long double)e);
                if (qsa_power(thetas[t], e) != exact)
                    fail_msg("%a^%a = %a, expected %a", (double)thetas[t], (double)e, (double)qsa_power(thetas[t], e),
                             (double)exact);
            }
    }
}

/* Every bf16 of every sign, and what lies between it and the next, by the definition: the nearer one, of two equally
 * near the one whose last bit is 0. */
static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    static const uint32_t below[] = {0, 1, 0x1234, 0x7fff}, above[] = {0x8001, 0xabcd, 0xffff};
    for (uint32_t high = 0; high <= 0xffff; high++) {
        if ((high & 0x7f80) == 0x7f80) /* infinities and NaN */
            continue;
        for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
            assert_int_equal(qsa_f32_to_bf16(test_float(high << 16 | below[i])), high);
        for (size_t i = 0; i < sizeof above / sizeof above[0]; i++)
            assert_int_equal(qsa_f32_to_bf16(test_float(high << 16 | above[i])), high + 1);
        assert_int_equal(qsa_f32_to_bf16(test_float(high << 16 | 0x8000)), high % 2 ? high + 1 : high);
        assert_int_equal(test_bits(qsa_bf16_to_f32((uint16_t)high)), high << 16);
        assert_int_equal(test_bits(qsa_round_bf16(test_float(high << 16))), high << 16);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--exhaustive") == 0)
        e2_stride = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e2_gives_the_specified_bits),   cmocka_unit_test(e2_errs_by_less_than_one_ulp),
        cmocka_unit_test(e2_is_zero_below_its_range),    cmocka_unit_test(sin_cos_give_the_specified_bits),
        cmocka_unit_test(sin_cos_are_correctly_rounded), cmocka_unit_test(power_is_correctly_rounded),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
