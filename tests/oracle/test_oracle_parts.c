/* The small pieces of the oracle, against the numbers that the specification prints and against rules that can be
 * checked by another route. */
#include "oracle/oracle.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void e2_has_the_printed_bits(void **state)
{
    (void)state;
    static const uint32_t pairs[][2] = {
        {0xbe800000, 0x3f5744fd}, {0xbf000000, 0x3f3504f4}, {0xc0490fdb, 0x3de8118d}, {0xc124cccd, 0x3a4fefc4},
        {0xc2fbfae1, 0x0080e3f8}, {0xc2fc0000, 0x00800000}, {0xc2fc000d, 0x00000000},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_int_equal(test_bits(oracle_e2(test_float(pairs[i][0]))), pairs[i][1]);
    assert_int_equal(test_bits(oracle_e2(0.0f)), test_bits(1.0f));
    assert_int_equal(test_bits(oracle_e2(-INFINITY)), 0);
}

static void e2_is_within_one_ulp_and_at_most_one(void **state)
{
    (void)state;
    for (uint32_t bits = 0x80000000; bits <= 0xc2fc0000; bits += 9973) {
        float x = test_float(bits), y = oracle_e2(x);
        double exact = exp2((double)x), ulp = (double)nextafterf((float)exact, 2.0f) - (double)(float)exact;
        assert_true(y <= 1.0f && fabs((double)y - exact) < ulp);
    }
}

static void sin_and_cos_have_the_printed_bits(void **state)
{
    (void)state;
    static const float angles[] = {1, 1000, 262143};
    static const uint32_t bits[][2] = {{0x3f576aa4, 0x3f0a5140}, {0x3f53ae61, 0x3f0ff813}, {0x3f4b0513, 0xbf1bf202}};
    for (int i = 0; i < 3; i++) {
        float sine, cosine, mirrored_sine, mirrored_cosine;
        oracle_sin_cos(angles[i], &sine, &cosine);
        oracle_sin_cos(-angles[i], &mirrored_sine, &mirrored_cosine);
        assert_int_equal(test_bits(sine), bits[i][0]);
        assert_int_equal(test_bits(cosine), bits[i][1]);
        assert_int_equal(test_bits(-mirrored_sine), bits[i][0]); /* negative k mod 4 */
        assert_int_equal(test_bits(mirrored_cosine), bits[i][1]);
    }
}

static void power_is_exact_where_roots_are(void **state)
{
    (void)state;
    assert_true(oracle_power(1e7f, 0.0f) == 1.0f);
    assert_true(oracle_power(16.0f, 0.5f) == 4.0f);
    assert_true(oracle_power(16.0f, 0.75f) == 8.0f);
    assert_true(oracle_power(65536.0f, 0.0625f) == 2.0f);
}

/* Every f16 and bf16 number is itself; halfway between two neighbours the even one wins. */
static void narrow_types_round_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(test_bits(oracle_to_bf16(test_float(0x3f808000))), 0x3f800000);
    assert_int_equal(test_bits(oracle_to_bf16(test_float(0x3f818000))), 0x3f820000);
    assert_int_equal(test_bits(oracle_to_bf16(test_float(0x3f808001))), 0x3f810000);
    assert_int_equal(test_bits(oracle_to_bf16(test_float(0x00018000))), 0x00020000); /* subnormal */
    assert_int_equal(test_bits(oracle_to_bf16(-0.0f)), 0x80000000);
    assert_int_equal(test_bits(oracle_to_bf16(test_float(0xff7fffff))), 0xff800000);
    assert_true(oracle_to_f16(2049.0f) == 2048.0f && oracle_to_f16(2051.0f) == 2052.0f);
    assert_true(oracle_to_f16(0x1p-24f) == 0x1p-24f && oracle_to_f16(0x1.8p-24f) == 0x1p-23f);
    assert_int_equal(test_bits(oracle_to_f16(-0x1p-25f)), 0x80000000);
    assert_true(oracle_to_f16(65519.0f) == 65504.0f);
}

static void storage_refuses_what_it_cannot_hold(void **state)
{
    (void)state;
    float x[32] = {0}, stored[32];
    x[5] = 65519.0f;
    assert_true(oracle_store(ORACLE_F16, 32, x, stored));
    x[5] = -65520.0f;
    assert_false(oracle_store(ORACLE_F16, 32, x, stored));
    x[5] = 65520.0f * 127;
    assert_false(oracle_store(ORACLE_Q8_0, 32, x, stored));
    x[5] = 65519.0f * 127;
    assert_true(oracle_store(ORACLE_Q8_0, 32, x, stored));
    x[5] = 0x1p56f;
    assert_true(oracle_store(ORACLE_BF16, 32, x, stored) && oracle_store(ORACLE_F32, 32, x, stored));
    x[5] = test_float(0x7f7fffff);
    assert_false(oracle_store(ORACLE_BF16, 32, x, stored));
    assert_true(oracle_store(ORACLE_F32, 32, x, stored));
}

static void q8_0_rounds_quotients_to_even_and_keeps_zero_blocks(void **state)
{
    (void)state;
    float x[32] = {0}, stored[32];
    x[0] = 127.0f; /* d = 1 */
    x[1] = 2.5f;
    x[2] = -3.5f;
    x[3] = -0.25f;
    assert_true(oracle_store(ORACLE_Q8_0, 32, x, stored));
    assert_true(stored[0] == 127.0f && stored[1] == 2.0f && stored[2] == -4.0f);
    assert_int_equal(test_bits(stored[3]), 0); /* no negative zero */
    memset(x, 0, sizeof x);
    x[7] = 0x1p-25f * 127; /* f16(d) is 0: all are 0 */
    assert_true(oracle_store(ORACLE_Q8_0, 32, x, stored));
    assert_int_equal(test_bits(stored[7]), 0);
}

static void select_takes_the_best_and_breaks_ties_by_position(void **state)
{
    (void)state;
    static const float scores[] = {1, 3, 0, 3, 2, 3, 0, 2};
    static const int32_t three[] = {1, 3, 5}, two[] = {1, 3}, five[] = {1, 3, 4, 5, 7}, seven[] = {0, 1, 2, 3, 4, 5, 7};
    int32_t chosen[8];
    assert_int_equal(oracle_select(8, scores, 3, chosen), 3);
    test_same_integers("best 3", three, chosen, 3);
    assert_int_equal(oracle_select(8, scores, 2, chosen), 2);
    test_same_integers("best 2", two, chosen, 2);
    assert_int_equal(oracle_select(8, scores, 5, chosen), 5);
    test_same_integers("best 5", five, chosen, 5);
    assert_int_equal(oracle_select(8, scores, 7, chosen), 7);
    test_same_integers("best 7", seven, chosen, 7);
    assert_int_equal(oracle_select(8, scores, 9, chosen), 8);
    assert_int_equal(oracle_select(0, NULL, 4, chosen), 0);
}

static void generator_gives_the_printed_values(void **state)
{
    (void)state;
    static const uint32_t values[2][4] = {{0x3f532700, 0xbeb68a00, 0xbf3f6300, 0xbec64200},
                                          {0xbe73f800, 0x3e896600, 0xbd544000, 0xbd9f4800}};
    static const uint64_t words[2][4] = {
        {0xe220a8397b1dcdaf, 0x910a2dec89025cc1, 0x975835de1c9756ce, 0x1d0b14e4db018fed},
        {0xc42c5a1aa3820138, 0x204391a6fd59956f, 0xb3703ad894507022, 0xa2042dba6cbcaf9b}};
    for (uint64_t stream = 0; stream < 2; stream++) {
        for (uint64_t k = 0; k < 4; k++) {
            assert_true(golden_bits64(stream, k) == words[stream][k]);
            assert_int_equal(test_bits(golden_value(stream, k)), values[stream][k]);
        }
    }
}

static void hash_is_fnv_1a(void **state)
{
    (void)state;
    /* The published value of the four bytes "foob". */
    assert_true(golden_hash_u32(GOLDEN_HASH_START, 0x626f6f66) == UINT64_C(0xdd120e790c2512af));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e2_has_the_printed_bits),
        cmocka_unit_test(e2_is_within_one_ulp_and_at_most_one),
        cmocka_unit_test(sin_and_cos_have_the_printed_bits),
        cmocka_unit_test(power_is_exact_where_roots_are),
        cmocka_unit_test(narrow_types_round_to_nearest_even),
        cmocka_unit_test(storage_refuses_what_it_cannot_hold),
        cmocka_unit_test(q8_0_rounds_quotients_to_even_and_keeps_zero_blocks),
        cmocka_unit_test(select_takes_the_best_and_breaks_ties_by_position),
        cmocka_unit_test(generator_gives_the_printed_values),
        cmocka_unit_test(hash_is_fnv_1a),
    };
    return cmocka_run_group_tests_name("oracle_parts", tests, NULL, NULL);
}
