/* SPDX-License-Identifier: Apache-2.0 */
/* The elementary functions against binary64, at every STEP-th float, and at their edges. With QSA_TEST_STEP=1 at every
 * float there is. */
#include "support.h"

#include "ops/elementary.h"
#include "ops/ops.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static uint32_t step(void)
{
    const char *wanted = getenv("QSA_TEST_STEP");
    const unsigned long n = wanted ? strtoul(wanted, NULL, 10) : 0;
    return n > 0 ? (uint32_t)n : 4001;
}

/* In units of the last place that an f32 of that size has. */
static double error_in_ulp(float found, double exact)
{
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)found - exact) / ldexp(1.0, exponent - 24);
}

/* Over all floats of [low, high] whose result is a normal number. */
static void expect_within(const char *name, float (*f)(float), double (*exact)(double), float low, float high,
                          double bound)
{
    double worst = 0.0;
    float worst_at = 0.0f;
    const uint32_t by = step();
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += by) {
        const float x = test_float((uint32_t)bits);
        if (!(x >= low && x <= high))
            continue;
        const double e = exact((double)x);
        if (fabs(e) < 0x1p-126)
            continue;
        const double error = error_in_ulp(f(x), e);
        if (!(error <= worst)) {
            worst = error;
            worst_at = x;
        }
    }
    print_message("%s: at most %.3f ulp, at %a\n", name, worst, (double)worst_at);
    if (!(worst > 0.4 && worst <= bound))
        fail_msg("%s: %.3f ulp at %a; at most %.3f are promised", name, worst, (double)worst_at, bound);
}

static double exact_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double exact_silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double exact_softplus(double x)
{
    return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static void test_accuracy(void **state)
{
    (void)state;
    const float most = 3.4e38f;
    expect_within("exp", ops_exp, exp, OPS_EXP_LEAST, OPS_EXP_MOST, 1.2);
    expect_within("sigmoid", ops_sigmoid, exact_sigmoid, -most, most, 2.5);
    expect_within("silu", ops_silu, exact_silu, -OPS_EXP_MOST, most, 2.5);
    expect_within("softplus", ops_softplus, exact_softplus, -most, most, 2.8);
    expect_within("log1p", ops_log1p, log1p, 0.0f, 1.0f, 2.0);
}

static void expect_bits(const char *what, float expected, float found)
{
    test_same_floats(what, &expected, &found, 1);
}

static void test_edges(void **state)
{
    (void)state;
    expect_bits("exp(0)", 1.0f, ops_exp(0.0f));
    expect_bits("exp(-0)", 1.0f, ops_exp(-0.0f));
    expect_bits("exp(-infinity)", 0.0f, ops_exp(-INFINITY));
    expect_bits("exp(infinity)", INFINITY, ops_exp(INFINITY));
    expect_bits("exp above its range", INFINITY, ops_exp(nextafterf(OPS_EXP_MOST, INFINITY)));
    expect_bits("exp below its range", 0.0f, ops_exp(nextafterf(OPS_EXP_LEAST, -INFINITY)));
    expect_bits("exp, greatest", (float)exp((double)OPS_EXP_MOST), ops_exp(OPS_EXP_MOST));
    expect_bits("exp, least", (float)exp((double)OPS_EXP_LEAST), ops_exp(OPS_EXP_LEAST));
    expect_bits("sigmoid(0)", 0.5f, ops_sigmoid(0.0f));
    expect_bits("sigmoid(100)", 1.0f, ops_sigmoid(100.0f));
    expect_bits("sigmoid(-1000)", 0.0f, ops_sigmoid(-1000.0f));
    expect_bits("silu(-1e30)", -0.0f, ops_silu(-1e30f));
    expect_bits("silu(1e30)", 1e30f, ops_silu(1e30f));
    expect_bits("softplus(1e30)", 1e30f, ops_softplus(1e30f));
    expect_bits("softplus(-1000)", 0.0f, ops_softplus(-1000.0f));
    const float nan = test_float(0x7fc12345);
    assert_true(isnan(ops_exp(nan)) && isnan(ops_exp(-nan)) && isnan(ops_sigmoid(nan)) && isnan(ops_silu(nan)) &&
                isnan(ops_softplus(nan)));
}

/* Bits that any processor must find: recorded once from this definition. */
static void test_recorded_bits(void **state)
{
    (void)state;
    static const struct {
        float x;
        uint32_t exp, sigmoid, silu, softplus;
    } recorded[] = {
        {-0x1.42p+6f, 0x0568d103, 0x0568d103, 0x88926b73, 0x0568d103},
        {-0x1.44p+4f, 0x30dc9ef1, 0x30dc9ef2, 0xb30b9c95, 0x30dc9ef1},
        {-0x1.d9999ap+1f, 0x3cca88fe, 0x3cc5a607, 0xbdb6d32d, 0x3cc8126c},
        {-0x1p+0f, 0x3ebc5ab2, 0x3e89b2b1, 0xbe89b2b1, 0x3ea063d7},
        {-0x1.333334p-2f, 0x3f3da644, 0x3ed9e2ac, 0xbe02bb34, 0x3f0dea3a},
        {-0x1.4f8b58p-17f, 0x3f7fff58, 0x3effffac, 0xb6a7c575, 0x3f3171c4},
        {0x1.99999ap-4f, 0x3f8d763e, 0x3f066509, 0x3d57080f, 0x3f3e90c8},
        {0x1.62e43p-1f, 0x40000000, 0x3f2aaaab, 0x3eec9820, 0x3f8c9f54},
        {0x1p+0f, 0x402df854, 0x3f3b26a8, 0x3f3b26a8, 0x3fa818f6},
        {0x1.4p+1f, 0x4142eb7f, 0x3f6c948f, 0x4013dcd9, 0x40250c88},
        {0x1.69999ap+3f, 0x479ddad3, 0x3f7fff30, 0x4134cc3a, 0x4134ccda},
        {0x1.4p+5f, 0x5c51106a, 0x3f800000, 0x42200000, 0x42200000},
        {0x1.62p+6f, 0x7f4cdcc4, 0x3f800000, 0x42b10000, 0x42b10000},
    };
    for (size_t i = 0; i < sizeof recorded / sizeof recorded[0]; i++) {
        const float x = recorded[i].x;
        expect_bits("exp", test_float(recorded[i].exp), ops_exp(x));
        expect_bits("sigmoid", test_float(recorded[i].sigmoid), ops_sigmoid(x));
        expect_bits("silu", test_float(recorded[i].silu), ops_silu(x));
        expect_bits("softplus", test_float(recorded[i].softplus), ops_softplus(x));
    }
}

/* Against the C library, which is itself within an ulp. */
static void test_exp64(void **state)
{
    (void)state;
    double worst = 0.0;
    for (double x = -708.0; x < 0.0; x += 0.00731) {
        const double exact = exp(x), error = fabs(ops_exp64(x) - exact) / (exact * DBL_EPSILON);
        worst = error > worst ? error : worst;
    }
    if (!(worst > 0.0 && worst < 2.0))
        fail_msg("exp64: %.3f epsilon off", worst);
    assert_true(ops_exp64(0.0) == 1.0 && ops_exp64(-0.0) == 1.0);
    assert_true(ops_exp64(-708.1) == 0.0 && ops_exp64(-INFINITY) == 0.0);
    assert_true(ops_exp64(-1.0) == 0x1.78b56362cef38p-2 && ops_exp64(-20.3) == 0x1.a3b8dc86d1c8ep-30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_recorded_bits),
        cmocka_unit_test(test_exp64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
