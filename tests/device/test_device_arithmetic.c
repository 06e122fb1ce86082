/* The device's arithmetic and ours on it: fused multiply-add, sums, products, our division and root in integers, E2. */
#include "fixture.h"

#include "base/elementary.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 200000 };

static float any_finite(random_source *r)
{
    for (;;) {
        const float x = qsa_f32_from_bits((uint32_t)random_next(r));
        if (isfinite(x))
            return x;
    }
}

/* Any bits; or numbers near each other, where cancellation and halves of the last place live. */
static void make_samples(random_source *r, float *in)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        float *s = in + 3 * i;
        for (int j = 0; j < 3; j++)
            s[j] = i % 3 == 0 ? any_finite(r) : random_float(r, i % 3 == 1 ? SUBNORMAL : ORDINARY, 0);
        if (i % 5 == 0)
            s[2] = -(s[0] * s[1]);
        if (s[1] == 0.0f)
            s[1] = 0x1p-149f;
    }
}

static bool same(float a, float b)
{
    return isnan(a) ? isnan(b) : test_bits(a) == test_bits(b);
}

static void expect(const char *what, const float *s, float expected, float found)
{
    if (!same(expected, found))
        fail_msg("%s of %a %a %a: %08x, not %08x", what, (double)s[0], (double)s[1], (double)s[2], test_bits(found),
                 test_bits(expected));
}

static void every_operation_is_the_hosts(void **state)
{
    (void)state;
    random_source r = {1};
    qsa_opencl_device *device = device_open((qsa_opencl_options){0});
    float *in = test_alloc(3 * SAMPLES, sizeof *in), *out = test_alloc(QSA_PROBE_RESULTS * SAMPLES, sizeof *out);
    make_samples(&r, in);
    assert_int_equal(qsa_opencl_probe_arithmetic(device, in, SAMPLES, out), QSA_OK);
    for (size_t i = 0; i < SAMPLES; i++) {
        const float *s = in + 3 * i, *found = out + QSA_PROBE_RESULTS * i;
        volatile float product = s[0] * s[1];
        expect("fma", s, fmaf(s[0], s[1], s[2]), found[0]);
        expect("a * b + c", s, product + s[2], found[1]);
        expect("a + b", s, s[0] + s[1], found[2]);
        expect("a * b", s, product, found[3]);
        expect("|a| / |b|", s, fabsf(s[0]) / fabsf(s[1]), found[4]);
        if (s[0] != 0.0f)
            expect("sqrt |a|", s, sqrtf(fabsf(s[0])), found[5]);
    }
    free(in);
    free(out);
    qsa_opencl_close(device);
}

/* Every 61st number of [-128, -0], and the places where it changes its way. */
static void e2_is_the_hosts(void **state)
{
    enum { COUNT = 1 << 20 };
    static const uint32_t edges[] = {0x80000000, 0x00000000, 0xc2fc0000, 0xc2fc0001, 0xc2fbffff, 0xff800000,
                                     0xbf000000, 0xbf000001, 0xbeffffff, 0x80000001, 0xff7fffff, 0xc2fbfae1};
    (void)state;
    for (uint32_t width = 0; width <= 4; width += 4) {
        qsa_opencl_device *device = device_open((qsa_opencl_options){.width = width == 0 ? 1 : width});
        float *in = test_alloc(COUNT, sizeof *in), *out = test_alloc(COUNT, sizeof *out);
        for (uint32_t i = 0; i < COUNT; i++)
            in[i] = qsa_f32_from_bits(0x80000000u + (uint32_t)((uint64_t)i * 0x43000000u / COUNT));
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
            in[i] = qsa_f32_from_bits(edges[i]);
        assert_int_equal(qsa_opencl_probe_e2(device, in, COUNT, out), QSA_OK);
        for (uint32_t i = 0; i < COUNT; i++)
            if (test_bits(out[i]) != test_bits(qsa_e2(in[i])))
                fail_msg("2^%a: %08x, not %08x", (double)in[i], test_bits(out[i]), test_bits(qsa_e2(in[i])));
        free(in);
        free(out);
        qsa_opencl_close(device);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_the_hosts),
        cmocka_unit_test(e2_is_the_hosts),
    };
    device_or_skip();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
