/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t trial_size(trial *t, size_t low, size_t high)
{
    return random_between(&t->random, low, high);
}

static guarded *new_array(trial *t, size_t count)
{
    assert_true(t->count < TRIAL_MOST_ARRAYS);
    t->arrays[t->count] = guarded_alloc(count);
    return &t->arrays[t->count++];
}

float *trial_input(trial *t, size_t count, int most)
{
    guarded *array = new_array(t, count);
    random_fill(&t->random, array->values, count, most);
    return array->values;
}

trial_pair trial_output(trial *t, size_t count, int most)
{
    trial_pair pair = {trial_input(t, count, most), new_array(t, count)->values, count};
    memcpy(pair.actual, pair.expected, count * sizeof(float));
    return pair;
}

void trial_compare(const trial *t, const char *what, trial_pair pair)
{
    for (size_t i = 0; i < pair.count; i++) {
        const float expected = pair.expected[i], actual = pair.actual[i];
        if (test_bits(expected) != test_bits(actual) && !(isnan(expected) && isnan(actual)))
            fail_msg("%s %s: %s[%zu] of %zu: expected %a, found %a; QSA_TEST_SEED=%llu", t->operation, t->table->isa,
                     what, i, pair.count, (double)expected, (double)actual, (unsigned long long)t->seed);
    }
}

static void run_trial(trial *t, void (*test)(trial *t))
{
    test(t);
    for (size_t i = 0; i < t->count; i++) {
        if (!guarded_intact(&t->arrays[i]))
            fail_msg("%s %s: wrote beyond an array; QSA_TEST_SEED=%llu", t->operation, t->table->isa,
                     (unsigned long long)t->seed);
        guarded_free(&t->arrays[i]);
    }
}

void each_trial(const char *operation, size_t cases, void (*test)(trial *t))
{
    const char *first = getenv("QSA_TEST_SEED");
    const uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    const ops_table *scalar = ops_available(0), *table;
    for (size_t i = 0; (table = ops_available(i)) != NULL; i++) {
        for (size_t c = 0; c < cases; c++) {
            trial t = {.scalar = scalar, .table = table, .operation = operation, .seed = seed + c};
            t.random.state = t.seed;
            run_trial(&t, test);
        }
    }
}
