/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints of its past a session keeps: how much is computed again after going back, whatever the length. */
#include "support.h"

#include "session/checkpoints.h"

#include <string.h>

typedef struct kept {
    uint64_t at[MAX_CHECKPOINTS + 2];
    uint32_t n, limit;
    uint64_t mark; /* UINT64_MAX: none */
} kept;

static void keep(kept *k, uint64_t tokens)
{
    k->at[k->n++] = tokens;
    while (k->n > k->limit + (k->mark != UINT64_MAX)) {
        uint32_t marked = k->n;
        for (uint32_t i = 0; i < k->n; i++)
            if (k->at[i] == k->mark)
                marked = i;
        const uint32_t gone = checkpoints_choose(k->at, k->n, marked);
        assert_true(gone < k->n && gone != marked);
        k->n--;
        memmove(k->at + gone, k->at + gone + 1, (k->n - gone) * sizeof *k->at);
    }
}

/* The worst replay, as a multiple of how far one went back, of all that are longer than the spacing. */
static double worst_factor(const kept *k, uint64_t end)
{
    double worst = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        const uint64_t to = k->at[i] - 1, from = i == 0 ? 0 : k->at[i - 1]; /* just before a checkpoint */
        const double factor = (double)(to - from) / (double)(end - to);
        if (to - from > CHECKPOINT_SPACING && factor > worst)
            worst = factor;
    }
    return worst;
}

static double worst_up_to(uint32_t limit, uint64_t end)
{
    kept k = {.limit = limit, .mark = UINT64_MAX};
    double worst = 0;
    for (uint64_t tokens = CHECKPOINT_SPACING; tokens <= end; tokens += CHECKPOINT_SPACING) {
        keep(&k, tokens);
        assert_int_equal(k.at[k.n - 1], tokens);
        const double factor = worst_factor(&k, tokens);
        worst = factor > worst ? factor : worst;
    }
    return worst;
}

static void going_back_costs_what_the_header_says(void **state)
{
    (void)state;
    assert_true(worst_up_to(8, 4096) == 0.0); /* nothing above the spacing */
    assert_true(worst_up_to(8, 32768) <= 1.4);
    assert_true(worst_up_to(8, 262144) <= 3.1);
    assert_true(worst_up_to(16, 32768) <= 0.4);
    assert_true(worst_up_to(16, 262144) <= 1.0);
}

static void mark_stays_and_takes_nobodys_place(void **state)
{
    (void)state;
    kept k = {.limit = 3, .mark = 1000};
    for (uint64_t tokens = 1000; tokens < 100000; tokens += 700) {
        keep(&k, tokens);
        assert_int_equal(k.at[0], 1000);
        assert_true(k.n <= 4);
    }
    assert_int_equal(k.n, 4);
}

static void the_last_checkpoint_goes_only_if_nothing_else_may(void **state)
{
    (void)state;
    const uint64_t two[] = {5, 9};
    assert_int_equal(checkpoints_choose(two, 2, 2), 0);
    assert_int_equal(checkpoints_choose(two, 2, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(going_back_costs_what_the_header_says),
        cmocka_unit_test(mark_stays_and_takes_nobodys_place),
        cmocka_unit_test(the_last_checkpoint_goes_only_if_nothing_else_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
