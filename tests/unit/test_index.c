/* Rotary tables, norms and pooled keys on plain arrays: against the oracle, in every small dimension, and by hand. */
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static qsa_config shape_of(uint32_t dim, uint32_t ratio, qsa_profile profile)
{
    qsa_config config = world_mini();
    config.head_dim = config.index_dim = dim;
    config.ratio = ratio;
    config.budget = 64;
    config.profile = profile;
    return config;
}

/* The released model's index dimension, small ones, and ones that fill no vector. */
static void pooled_keys_are_the_oracle_s_for_every_dimension_and_ratio(void **state)
{
    (void)state;
    static const uint32_t dims[] = {4, 5, 7, 8, 12, 31, 100, 128, 1024};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (uint32_t ratio = 1; ratio <= 64; ratio *= 2)
            for (int profile = 0; profile < QSA_PROFILE_COUNT; profile++) {
                enum { GROUPS = 3 };
                qsa_config config = shape_of(dims[i], ratio, (qsa_profile)profile);
                oracle_shape shape = world_oracle_shape(&config);
                float *raw = test_alloc(GROUPS * ratio * dims[i], sizeof *raw), out[GROUPS * 1024], expected[1024];
                float table[4], weight[1024];
                const qsa_triple first[GROUPS] = {{0, 0, 0}, {-5, 1000, 7}, {262143, 3, -(1 << 24)}};
                qsa_rotary rotary;
                test_fill(ratio, raw, GROUPS * ratio * dims[i]);
                test_fill(77, weight, dims[i]);
                shape.index_k_norm = weight;
                world_ok(qsa_rotary_init(&config, &rotary));
                world_ok(qsa_pool_keys(&config, &rotary, raw, first, GROUPS, weight, out));
                for (int g = 0; g < GROUPS; g++) {
                    float *keys = raw + (size_t)g * ratio * dims[i];
                    for (uint32_t e = 0; profile == QSA_PROFILE_BF16 && e < ratio * dims[i]; e++)
                        keys[e] = oracle_to_bf16(keys[e]);
                    oracle_cos_sin(&shape, (const int32_t *)&first[g], table);
                    oracle_pool(&shape, keys, table, expected);
                    test_same_floats("pooled", expected, out + (size_t)g * dims[i], dims[i]);
                }
                free(raw);
            }
}

/* Pairs are (i, i + half), not (2i, 2i + 1). */
static void rotation_is_half_split(void **state)
{
    (void)state;
    const float x[4] = {1, 0, 0, 0}, eps = 0x1p-40f;
    float out[4], cos[2], sin[2];
    qsa_config config = shape_of(4, 4, QSA_PROFILE_F32);
    qsa_rotary rotary;
    world_ok(qsa_rotary_init(&config, &rotary));
    assert_true(rotary.pairs == 2 && rotary.inverse_frequency[0] == 1);
    world_ok(qsa_rotary_cos_sin(&rotary, (qsa_triple){1, 1, 1}, cos, sin));
    world_ok(qsa_norm_rotate(x, 1, 4, NULL, eps, 2, cos, sin, QSA_PROFILE_F32, out));
    assert_true(out[0] == 2 * cos[0] && out[1] == 0 && out[2] == 2 * sin[0] && out[3] == 0); /* the norm makes 1 a 2 */
    assert_true(fabsf(cos[0] - 0.540302f) < 1e-6f && fabsf(sin[0] - 0.841471f) < 1e-6f);
}

static void norm_alone_and_in_place(void **state)
{
    (void)state;
    float x[2 * 8], out[2 * 8];
    test_fill(3, x, 16);
    world_ok(qsa_norm_rotate(x, 2, 8, NULL, 1e-6f, 0, NULL, NULL, QSA_PROFILE_F32, out));
    for (int h = 0; h < 2; h++) {
        float expected[8], ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        oracle_norm(8, 1e-6f, x + 8 * h, ones, expected);
        test_same_floats("norm", expected, out + 8 * h, 8);
    }
    world_ok(qsa_norm_rotate(x, 2, 8, NULL, 1e-6f, 0, NULL, NULL, QSA_PROFILE_F32, x));
    test_same_floats("in place", out, x, 16);
}

static void what_no_number_can_come_of_is_refused(void **state)
{
    (void)state;
    qsa_config config = shape_of(8, 4, QSA_PROFILE_F32);
    qsa_rotary rotary, other = {0};
    float raw[2 * 4 * 8] = {0}, out[16] = {77}, weight[8] = {0}, cos[2], sin[2];
    qsa_triple first[2] = {{0, 0, 0}, {0, 0, 0}};
    world_ok(qsa_rotary_init(&config, &rotary));
    raw[(4 + 2) * 8 + 3] = NAN;
    world_refused(QSA_E_NONFINITE, "group 1, token 2", qsa_pool_keys(&config, &rotary, raw, first, 2, NULL, out));
    raw[(4 + 2) * 8 + 3] = 0;
    weight[6] = 0x1p41f;
    world_refused(QSA_E_NONFINITE, "weight 6", qsa_pool_keys(&config, &rotary, raw, first, 2, weight, out));
    first[1].w = (1 << 24) + 1;
    world_refused(QSA_E_LIMIT, "group 1", qsa_pool_keys(&config, &rotary, raw, first, 2, NULL, out));
    world_refused(QSA_E_LIMIT, "2^24", qsa_rotary_cos_sin(&rotary, first[1], cos, sin));
    world_refused(QSA_E_ARGUMENT, "rotary table", qsa_pool_keys(&config, &other, raw, first, 1, NULL, out));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_pool_keys(&config, &rotary, NULL, first, 1, NULL, out));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_rotary_init(&config, NULL));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_rotary_cos_sin(NULL, first[0], cos, sin));
    raw[9] = INFINITY;
    world_refused(QSA_E_NONFINITE, "head 1, element 1",
                  qsa_norm_rotate(raw, 2, 8, NULL, 1e-6f, 0, NULL, NULL, QSA_PROFILE_F32, out));
    world_refused(QSA_E_ARGUMENT, "eps", qsa_norm_rotate(raw, 1, 8, NULL, 0, 0, NULL, NULL, QSA_PROFILE_F32, out));
    world_refused(QSA_E_ARGUMENT, "pairs 5", qsa_norm_rotate(raw, 1, 8, NULL, 1, 5, cos, sin, QSA_PROFILE_F32, out));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_norm_rotate(raw, 1, 8, NULL, 1, 2, cos, NULL, QSA_PROFILE_F32, out));
    assert_true(out[0] == 77);
}

static void frequencies_and_yarn_are_the_oracle_s(void **state)
{
    (void)state;
    static const float factors[] = {0, 0.5f, 1, 4, 40};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        qsa_config config;
        qsa_config_init(&config);
        config.yarn = (qsa_yarn){.factor = factors[i], .original_context = 32768, .beta_fast = 32, .beta_slow = 1};
        oracle_shape shape = world_oracle_shape(&config);
        qsa_rotary rotary;
        float frequencies[32];
        world_ok(qsa_rotary_init(&config, &rotary));
        oracle_frequencies(&shape, frequencies);
        test_same_floats("frequency", frequencies, rotary.inverse_frequency, 32);
        assert_true(rotary.attention_factor == oracle_attention_factor(&shape));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pooled_keys_are_the_oracle_s_for_every_dimension_and_ratio),
        cmocka_unit_test(rotation_is_half_split),
        cmocka_unit_test(norm_alone_and_in_place),
        cmocka_unit_test(what_no_number_can_come_of_is_refused),
        cmocka_unit_test(frequencies_and_yarn_are_the_oracle_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
