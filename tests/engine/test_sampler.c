/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler: one test per rule, and a slow second implementation. */
#include "session/sampler.h"

#include "base/error.h"
#include "base/splitmix64.h"
#include "support.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static qsa_sampler *make(const qsa_sampler_options *options, uint32_t vocabulary)
{
    qsa_sampler *sampler;
    assert_int_equal(qsa_sampler_create(options, vocabulary, &sampler), QSA_OK);
    return sampler;
}

static int32_t next(qsa_sampler *sampler, const float *logits)
{
    int32_t token = -1;
    assert_int_equal(qsa_sampler_next(sampler, logits, &token), QSA_OK);
    return token;
}

static qsa_sampler_options options_at(float temperature)
{
    qsa_sampler_options options;
    qsa_sampler_options_init(&options);
    options.temperature = temperature;
    return options;
}

/* How often each of the tokens comes up. */
static void count_tokens(const qsa_sampler_options *options, const float *logits, uint32_t vocabulary, int *out_counts,
                         int rounds)
{
    qsa_sampler *sampler = make(options, vocabulary);
    memset(out_counts, 0, vocabulary * sizeof *out_counts);
    for (int i = 0; i < rounds; i++)
        out_counts[next(sampler, logits)]++;
    qsa_sampler_destroy(sampler);
}

static void greedy_takes_the_largest_and_of_equal_ones_the_lowest_id(void **state)
{
    (void)state;
    qsa_sampler_options options;
    qsa_sampler_options_init(&options);
    qsa_sampler *sampler = make(&options, 5);
    assert_int_equal(next(sampler, (float[]){1, 3, 2, 3, 3}), 1);
    assert_int_equal(next(sampler, (float[]){-1, -1, -1, -1, -1}), 0);
    assert_int_equal(next(sampler, (float[]){-0.0f, 0.0f, -1, 0.0f, -2}), 0);
    assert_int_equal(next(sampler, (float[]){-3e38f, -2, -1, 0, 3e38f}), 4);
    assert_int_equal(qsa_sampler_state(sampler), 0); /* nothing was drawn */
    qsa_sampler_destroy(sampler);
}

/* 256 equal logits: the token is the upper byte of the random number. */
static void random_numbers_are_those_of_splitmix64(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        int32_t tokens[4];
    } cases[] = {
        {0, {0xe2, 0x6e, 0x06, 0xf8}},
        {1, {0x91, 0xbe, 0xf8, 0x71}},
    };
    float logits[256] = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        qsa_sampler_options options = options_at(1);
        options.seed = cases[i].seed;
        qsa_sampler *sampler = make(&options, 256);
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(next(sampler, logits), cases[i].tokens[k]);
        qsa_sampler_destroy(sampler);
    }
}

static void state_can_be_saved_and_put_back(void **state)
{
    (void)state;
    float logits[64];
    int32_t first[20];
    qsa_sampler_options options = options_at(2);
    test_fill(7, logits, COUNT(logits));
    qsa_sampler *sampler = make(&options, COUNT(logits)), *other = make(&options, COUNT(logits));
    next(sampler, logits);
    uint64_t saved = qsa_sampler_state(sampler);
    for (size_t i = 0; i < COUNT(first); i++)
        first[i] = next(sampler, logits);
    qsa_sampler_set_state(other, saved);
    for (size_t i = 0; i < COUNT(first); i++)
        assert_int_equal(next(other, logits), first[i]);
    assert_int_equal(qsa_sampler_state(sampler), qsa_sampler_state(other));
    qsa_sampler_destroy(sampler);
    qsa_sampler_destroy(other);
}

/* The second token weighs what min_p asks for, to the last bits: rounded upward throughout it would weigh too little.
 */
static void rounding_mode_of_the_host_chooses_no_token(void **state)
{
    (void)state;
    const float logits[] = {0, -0x1.08fe96p+3f};
    qsa_sampler_options options = options_at(12960592 * 0x1p-20f);
    options.min_p = 131 / 256.0f;
    qsa_sampler *sampler = make(&options, COUNT(logits));
    int counts[2] = {0};
    for (size_t i = 0; i < 100; i++) {
        fesetround(FE_UPWARD);
        const int32_t token = next(sampler, logits);
        fesetround(FE_TONEAREST);
        counts[token]++;
    }
    assert_true(counts[1] > 0);
    qsa_sampler_destroy(sampler);
}

static void temperature_scales_the_logits(void **state)
{
    (void)state;
    enum { ROUNDS = 40000 };
    const float logits[] = {0, 2, 1};
    int counts[3];
    for (int t = 1; t <= 4; t *= 2) {
        qsa_sampler_options options = options_at((float)t);
        double weights[3], sum = 0;
        for (int i = 0; i < 3; i++)
            sum += weights[i] = exp((double)logits[i] / t);
        count_tokens(&options, logits, 3, counts, ROUNDS);
        for (int i = 0; i < 3; i++)
            assert_true(fabs(counts[i] / (double)ROUNDS - weights[i] / sum) < 0.01);
    }
    qsa_sampler_options cold = options_at(1e-6f);
    count_tokens(&cold, logits, 3, counts, 100);
    assert_int_equal(counts[1], 100);
}

static void top_k_keeps_the_first_k_and_ties_go_by_id(void **state)
{
    (void)state;
    const float logits[] = {1, 2, 1, 1, 0};
    int counts[5];
    qsa_sampler_options options = options_at(1);
    options.top_k = 3;
    count_tokens(&options, logits, 5, counts, 2000);
    assert_true(counts[0] > 0 && counts[1] > 0 && counts[2] > 0);
    assert_int_equal(counts[3] + counts[4], 0);
    options.top_k = 1;
    count_tokens(&options, logits, 5, counts, 100);
    assert_int_equal(counts[1], 100);
    options.top_k = UINT32_MAX;
    count_tokens(&options, logits, 5, counts, 2000);
    assert_true(counts[4] > 0);
}

static void top_p_keeps_the_shortest_beginning_that_weighs_enough(void **state)
{
    (void)state;
    /* weights 4, 2, 1, 1 of 8 */
    const float logits[] = {0, -1.3862943611f, -0.6931471806f, -1.3862943611f};
    int counts[4];
    qsa_sampler_options options = options_at(1);
    options.top_p = 0.4f;
    count_tokens(&options, logits, 4, counts, 2000);
    assert_int_equal(counts[0], 2000);
    options.top_p = 0.6f;
    count_tokens(&options, logits, 4, counts, 2000);
    assert_true(counts[0] > 0 && counts[2] > 0);
    assert_int_equal(counts[1] + counts[3], 0);
    options.top_p = 0.8f;
    count_tokens(&options, logits, 4, counts, 2000);
    assert_true(counts[1] > 0);
    assert_int_equal(counts[3], 0);
    options.top_p = 1e-30f;
    count_tokens(&options, logits, 4, counts, 100);
    assert_int_equal(counts[0], 100);
}

/* Of 4, 2, 1, 1 top_k leaves 4, 2: the first then weighs two thirds, and is enough for 0.6. */
static void top_p_counts_what_top_k_kept(void **state)
{
    (void)state;
    const float logits[] = {0, -1.3862943611f, -0.6931471806f, -1.3862943611f};
    int counts[4];
    qsa_sampler_options options = options_at(1);
    options.top_k = 2;
    options.top_p = 0.6f;
    count_tokens(&options, logits, 4, counts, 500);
    assert_int_equal(counts[0], 500);
}

static void min_p_keeps_what_weighs_enough_beside_the_first(void **state)
{
    (void)state;
    const float logits[] = {0, -1, 0, -3};
    int counts[4];
    qsa_sampler_options options = options_at(1);
    options.min_p = 1;
    count_tokens(&options, logits, 4, counts, 2000);
    assert_true(counts[0] > 0 && counts[2] > 0);
    assert_int_equal(counts[1] + counts[3], 0);
    options.min_p = 0.1f; /* exp(-1) = 0.37, exp(-3) = 0.05 */
    count_tokens(&options, logits, 4, counts, 2000);
    assert_true(counts[1] > 0);
    assert_int_equal(counts[3], 0);
    options.temperature = 2; /* exp(-1.5) = 0.22 */
    count_tokens(&options, logits, 4, counts, 2000);
    assert_true(counts[3] > 0);
}

/* ---- biases and penalties ---- */

static void a_bias_moves_a_logit_and_minus_infinity_forbids(void **state)
{
    (void)state;
    const float logits[5] = {1, 3, 2, 3, 0};
    qsa_logit_bias biases[] = {{1, -1.5f}, {4, 2}, {4, 1.5f}, {3, -INFINITY}};
    qsa_sampler_options options = options_at(0);
    options.biases = biases;
    options.bias_count = COUNT(biases);
    qsa_sampler *sampler = make(&options, 5);
    biases[0].bias = 100; /* they were copied */
    assert_int_equal(next(sampler, logits), 4);
    qsa_sampler_destroy(sampler);

    int counts[5];
    options = options_at(5);
    options.biases = &(qsa_logit_bias){3, -INFINITY};
    options.bias_count = 1;
    count_tokens(&options, logits, 5, counts, 2000);
    assert_int_equal(counts[3], 0);
    for (int i = 0; i < 5; i++)
        assert_true(i == 3 || counts[i] > 100);
    options.top_k = 4;
    count_tokens(&options, logits, 5, counts, 2000);
    assert_true(counts[3] == 0 && counts[4] > 100); /* the fourth of those that may come */
}

static void no_token_left_is_refused_and_draws_nothing(void **state)
{
    (void)state;
    const qsa_logit_bias all[] = {{0, -INFINITY}, {1, -INFINITY}};
    for (int t = 0; t < 2; t++) {
        qsa_sampler_options options = options_at((float)t);
        options.biases = all;
        options.bias_count = COUNT(all);
        options.seed = 7;
        qsa_sampler *sampler = make(&options, 2);
        int32_t token = -1;
        assert_int_equal(qsa_sampler_next(sampler, (float[]){1, 2}, &token), QSA_E_ARGUMENT);
        assert_non_null(strstr(engine_error_detail(), "leave no token"));
        assert_int_equal(token, -1);
        assert_int_equal(qsa_sampler_state(sampler), 7);
        qsa_sampler_destroy(sampler);
    }
}

/* A token wins against one without penalties exactly if its penalised logit is above that one's. */
static void penalties_are_the_formula(void **state)
{
    (void)state;
    static const int32_t text[] = {3, 3, 1, 0, 1, 99, -3, 1, 2}; /* the last four of the vocabulary: 0 1 1 2 */
    static const float logits[3] = {2, -1, 0.5f};
    /* 2 / 1.5 - 0.75; -1 * 1.5 - 1.25; 0.5 / 1.5 - 0.75 */
    static const float wanted[3] = {0.58333f, -2.75f, -0.41667f};
    qsa_sampler_options options = options_at(0);
    options.repeat_penalty = 1.5f;
    options.presence_penalty = 0.25f;
    options.frequency_penalty = 0.5f;
    options.penalty_tokens = 4;
    for (int i = 0; i < 3; i++)
        for (int above = 0; above < 2; above++) {
            float all[4] = {-50, -50, -50, wanted[i] + (above ? 0.001f : -0.001f)};
            all[i] = logits[i];
            qsa_sampler *sampler = make(&options, 4);
            qsa_sampler_accept(sampler, text, COUNT(text));
            assert_int_equal(next(sampler, all), above ? 3 : i);
            qsa_sampler_destroy(sampler);
        }
}

static void what_was_drawn_is_penalised_until_it_is_forgotten(void **state)
{
    (void)state;
    qsa_sampler_options options = options_at(0);
    options.presence_penalty = 10;
    options.penalty_tokens = 2;
    qsa_sampler *sampler = make(&options, 4);
    static const int32_t wanted[] = {0, 1, 2, 0, 1, 2};
    for (size_t i = 0; i < COUNT(wanted); i++)
        assert_int_equal(next(sampler, (float[]){4, 3, 2, 1}), wanted[i]);
    qsa_sampler_destroy(sampler);
}

static void bad_penalties_and_biases_are_refused_by_name(void **state)
{
    (void)state;
    const qsa_sampler_options good = options_at(1);
    struct {
        const char *name;
        qsa_sampler_options options;
    } cases[12];
    size_t n = 0;
#define BAD(words, field, bad) (cases[n].name = words, cases[n].options = good, cases[n].options.field = (bad), n++)
    BAD("repeat_penalty", repeat_penalty, 0);
    BAD("repeat_penalty", repeat_penalty, NAN);
    BAD("repeat_penalty", repeat_penalty, 101);
    BAD("presence_penalty", presence_penalty, -101);
    BAD("frequency_penalty", frequency_penalty, INFINITY);
    BAD("penalty_tokens", penalty_tokens, UINT32_MAX);
#undef BAD
    static const qsa_logit_bias biases[] = {{-1, 0}, {3, 0}, {0, INFINITY}, {0, NAN}};
    for (size_t i = 0; i < COUNT(biases); i++, n++) {
        cases[n].name = "bias";
        cases[n].options = good;
        cases[n].options.biases = &biases[i];
        cases[n].options.bias_count = 1;
    }
    for (size_t i = 0; i < n; i++) {
        qsa_sampler *sampler = NULL;
        assert_int_equal(qsa_sampler_create(&cases[i].options, 3, &sampler), QSA_E_ARGUMENT);
        assert_non_null(strstr(engine_error_detail(), cases[i].name));
        assert_null(sampler);
    }
}

/* ---- a slow second implementation: sorts everything, drops what a filter does not keep ---- */

typedef struct entry {
    float logit;
    int32_t id;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static double unit_of_splitmix64(uint64_t state)
{
    return (double)(splitmix64_next(&state) >> 11) / 9007199254740992.0;
}

static double weigh(const entry *entries, size_t count, double temperature, double *weights)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += weights[i] = exp(((double)entries[i].logit - (double)entries[0].logit) / temperature);
    return sum;
}

static int32_t sample_slowly(const qsa_sampler_options *options, const float *logits, size_t count, uint64_t state)
{
    entry entries[64];
    double weights[64];
    for (size_t i = 0; i < count; i++)
        entries[i] = (entry){logits[i], (int32_t)i};
    qsort(entries, count, sizeof *entries, compare_entries);
    if (options->top_k > 0 && options->top_k < count)
        count = options->top_k;
    double all = weigh(entries, count, (double)options->temperature, weights), kept = 0;
    size_t n = 0;
    while (n < count && kept < (double)options->top_p * all && weights[n] >= (double)options->min_p)
        kept += weights[n++];
    double target = unit_of_splitmix64(state) * kept, sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += weights[i];
        if (sum > target)
            return entries[i].id;
    }
    return entries[n - 1].id;
}

static void sampler_agrees_with_the_slow_way(void **state)
{
    (void)state;
    static const uint32_t top_ks[] = {0, 1, 3, 17, 64, 100};
    static const float top_ps[] = {1, 0.95f, 0.5f, 0.1f}, min_ps[] = {0, 0.02f, 0.3f, 1},
                       temperatures[] = {0.1f, 0.7f, 1, 5};
    for (uint64_t round = 0; round < 20000; round++) {
        float logits[64];
        uint32_t count = 1 + (uint32_t)(round % 64);
        test_fill(round, logits, count);
        for (uint32_t i = 0; i < count; i++)
            logits[i] =
                round % 3 == 0 ? rintf(logits[i] * 3) : logits[i] * 8; /* a third of the rounds is full of ties */
        qsa_sampler_options options = options_at(temperatures[round / 7 % 4]);
        options.top_k = top_ks[round / 3 % 6];
        options.top_p = top_ps[round / 5 % 4];
        options.min_p = min_ps[round / 11 % 4];
        options.seed = round;
        qsa_sampler *sampler = make(&options, count);
        int32_t expected = sample_slowly(&options, logits, count, round), found = next(sampler, logits);
        if (expected != found)
            fail_msg("round %llu: expected %d, found %d", (unsigned long long)round, (int)expected, (int)found);
        qsa_sampler_destroy(sampler);
    }
}

/* ---- refusals ---- */

static void expect_refused(qsa_sampler_options options, const char *detail)
{
    qsa_sampler *sampler = NULL;
    assert_int_equal(qsa_sampler_create(&options, 8, &sampler), QSA_E_ARGUMENT);
    assert_string_equal(engine_error_detail(), detail);
    assert_null(sampler);
}

static void create_refuses_options_out_of_range_by_name(void **state)
{
    (void)state;
    qsa_sampler_options good = options_at(1), options = good;
    options.size_bytes = 0;
    assert_int_equal(qsa_sampler_create(&options, 8, &(qsa_sampler *){NULL}), QSA_E_ARGUMENT);
    assert_non_null(strstr(engine_error_detail(), "call qsa_sampler_options_init first"));
    options = good;
    options.temperature = -1;
    expect_refused(options, "temperature is -1; it must be in [0, 1000]");
    options.temperature = 1001;
    expect_refused(options, "temperature is 1001; it must be in [0, 1000]");
    options.temperature = INFINITY;
    expect_refused(options, "temperature is inf; it must be in [0, 1000]");
    options.temperature = NAN;
    assert_int_equal(qsa_sampler_create(&options, 8, &(qsa_sampler *){NULL}), QSA_E_ARGUMENT);
    options = good;
    options.top_p = 0;
    expect_refused(options, "top_p is 0; it must be in (0, 1]");
    options.top_p = 1.5f;
    expect_refused(options, "top_p is 1.5; it must be in (0, 1]");
    options.top_p = NAN;
    assert_int_equal(qsa_sampler_create(&options, 8, &(qsa_sampler *){NULL}), QSA_E_ARGUMENT);
    options = good;
    options.min_p = -0.5f;
    expect_refused(options, "min_p is -0.5; it must be in [0, 1]");
    options.min_p = 2;
    expect_refused(options, "min_p is 2; it must be in [0, 1]");
    options.min_p = NAN;
    assert_int_equal(qsa_sampler_create(&options, 8, &(qsa_sampler *){NULL}), QSA_E_ARGUMENT);
    assert_int_equal(qsa_sampler_create(&good, 0, &(qsa_sampler *){NULL}), QSA_E_ARGUMENT);
    assert_int_equal(qsa_sampler_create(&good, (1u << 24) + 1, &(qsa_sampler *){NULL}), QSA_E_ARGUMENT);
    qsa_sampler_destroy(NULL);
}

static void next_refuses_logits_that_are_no_numbers(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        for (int t = 0; t < 2; t++) {
            qsa_sampler_options options = options_at((float)t);
            qsa_sampler *sampler = make(&options, 3);
            int32_t token = 77;
            assert_int_equal(qsa_sampler_next(sampler, (float[]){1, 2, bad[i]}, &token), QSA_E_NONFINITE);
            assert_non_null(strstr(engine_error_detail(), "the logit of token 2 is "));
            assert_int_equal(token, 77);
            assert_int_equal(qsa_sampler_state(sampler), 0);
            qsa_sampler_destroy(sampler);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_of_equal_ones_the_lowest_id),
        cmocka_unit_test(a_bias_moves_a_logit_and_minus_infinity_forbids),
        cmocka_unit_test(no_token_left_is_refused_and_draws_nothing),
        cmocka_unit_test(penalties_are_the_formula),
        cmocka_unit_test(what_was_drawn_is_penalised_until_it_is_forgotten),
        cmocka_unit_test(bad_penalties_and_biases_are_refused_by_name),
        cmocka_unit_test(rounding_mode_of_the_host_chooses_no_token),
        cmocka_unit_test(random_numbers_are_those_of_splitmix64),
        cmocka_unit_test(state_can_be_saved_and_put_back),
        cmocka_unit_test(temperature_scales_the_logits),
        cmocka_unit_test(top_k_keeps_the_first_k_and_ties_go_by_id),
        cmocka_unit_test(top_p_keeps_the_shortest_beginning_that_weighs_enough),
        cmocka_unit_test(top_p_counts_what_top_k_kept),
        cmocka_unit_test(min_p_keeps_what_weighs_enough_beside_the_first),
        cmocka_unit_test(sampler_agrees_with_the_slow_way),
        cmocka_unit_test(create_refuses_options_out_of_range_by_name),
        cmocka_unit_test(next_refuses_logits_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
