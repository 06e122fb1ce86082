/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of selection, of every table that this processor runs, against the sentence that defines them: few
 * different scores, so that equals are everywhere, lengths that do not divide, borders around all that is written.
 *
 * A failure names the table and the seed of its case; QSA_TEST_SEED=seed runs that case first. */
#include "support.h"

#include "kernels/kernels.h"
#include "random_values.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 300, CASES = 4000, CANDIDATE_FLOATS = sizeof(qsa_candidate) / sizeof(float) };

/* Scores are >= +0: one of a few values, or any. */
static uint32_t random_bits(random_source *r, size_t values)
{
    return values == 0 ? (uint32_t)random_between(r, 0, 0x7f7fffff)
                       : (uint32_t)random_between(r, 0, values - 1) * 0x1001;
}

static void expect_candidates(const char *isa, uint64_t seed, const qsa_candidate *expected, size_t n,
                              const guarded *found, size_t n_found)
{
    if (n_found != n || memcmp(expected, found->values, n * sizeof *expected) != 0 || !guarded_intact(found))
        fail_msg("%s: %zu candidates of %zu, or others, or written outside; QSA_TEST_SEED=%llu test_kernels_select",
                 isa, n_found, n, (unsigned long long)seed);
}

static void offer_case(uint64_t seed)
{
    random_source r = {seed};
    const size_t n = random_between(&r, 0, MOST), values = random_between(&r, 0, 12);
    const uint32_t first = (uint32_t)random_between(&r, 0, 1000000);
    const int64_t tau = random_chance(&r, 4) ? -1 : (int64_t)random_bits(&r, values);
    float scores[MOST];
    qsa_candidate expected[MOST];
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = random_bits(&r, values);
        scores[i] = test_float(bits);
        if ((int64_t)bits > tau)
            expected[count++] = (qsa_candidate){bits, first + (uint32_t)i};
    }
    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        guarded out = guarded_alloc(n * CANDIDATE_FLOATS);
        const size_t found = k->offer(scores, (uint32_t)n, first, tau, (qsa_candidate *)(void *)out.values);
        expect_candidates(k->isa, seed, expected, count, &out, found);
        guarded_free(&out);
    }
}

static void keep_case(uint64_t seed)
{
    random_source r = {seed};
    const size_t n = random_between(&r, 0, MOST), values = random_between(&r, 0, 12);
    qsa_candidate all[MOST], expected[MOST];
    for (size_t i = 0; i < n; i++)
        all[i] = (qsa_candidate){random_bits(&r, values), (uint32_t)random_next(&r)};
    const uint32_t threshold = n > 0 ? all[random_between(&r, 0, n - 1)].bits : 0;
    const uint32_t equal = (uint32_t)random_between(&r, 0, random_chance(&r, 2) ? n : 2);
    size_t count = 0, equals = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].bits > threshold || (all[i].bits == threshold && equals++ < equal))
            expected[count++] = all[i];
    const qsa_kernels *k;
    for (size_t t = 0; (k = qsa_kernels_available(t)) != NULL; t++) {
        guarded kept = guarded_alloc(n * CANDIDATE_FLOATS);
        memcpy(kept.values, all, n * sizeof *all);
        const size_t found = k->keep((qsa_candidate *)(void *)kept.values, (uint32_t)n, threshold, equal);
        expect_candidates(k->isa, seed, expected, count, &kept, found);
        guarded_free(&kept);
    }
}

static void each_seed(void (*test)(uint64_t seed))
{
    const char *first = getenv("QSA_TEST_SEED");
    const uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    for (uint64_t i = 0; i < CASES; i++)
        test(seed + i);
}

static void offer_writes_what_exceeds_tau(void **state)
{
    (void)state;
    each_seed(offer_case);
}

static void keep_keeps_the_larger_and_the_first_equals(void **state)
{
    (void)state;
    each_seed(keep_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offer_writes_what_exceeds_tau),
        cmocka_unit_test(keep_keeps_the_larger_and_the_first_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
