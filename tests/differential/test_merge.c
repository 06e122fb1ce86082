/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of ranges, merged, against a sort of all scores: wherever good scores and ties lie, however groups are
 * cut. And what a merge looks at.
 *
 * A failure names the table and the seed of its case; QSA_TEST_SEED=seed runs that case first. */
#include "support.h"

#include "random_values.h"
#include "select/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 6000, MOST_RANGES = 70, MOST_K = 512, CASES = 1500, CANDIDATE_FLOATS = 2 };

_Static_assert(sizeof(qsa_candidate) == CANDIDATE_FLOATS * sizeof(float), "guards count floats");

/* ---- a query whose groups are cut ---- */

typedef struct cut {
    uint32_t k, n_ranges, n_groups;
    uint32_t ends[MOST_RANGES]; /* of ranges, ascending: some are empty */
    float scores[MOST_GROUPS];
} cut;

static const float *sorted_scores;

static int by_score_then_position(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (sorted_scores[i] != sorted_scores[j])
        return sorted_scores[i] > sorted_scores[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i < j ? -1 : i > j;
}

/* The first k in order of score and position, in order of position. */
static uint32_t sort_all(const cut *c, uint32_t *out)
{
    static uint32_t order[MOST_GROUPS];
    const uint32_t count = c->n_groups < c->k ? c->n_groups : c->k;
    for (uint32_t i = 0; i < c->n_groups; i++)
        order[i] = i;
    sorted_scores = c->scores;
    qsort(order, c->n_groups, sizeof *order, by_score_then_position);
    qsort(order, count, sizeof *order, ascending);
    memcpy(out, order, count * sizeof *order);
    return count;
}

/* What the phases work in. */
typedef struct lists {
    qsa_candidate *all; /* [n_ranges][capacity] */
    guarded few, buffer;
    qsa_range range[MOST_RANGES];
    qsa_ranges ranges;
} lists;

static qsa_candidate *candidates_of(const guarded *g)
{
    return (qsa_candidate *)(void *)g->values;
}

/* As phase 1 does it: each range selects on its own, and leaves what it found. */
static void scan_ranges(const qsa_kernels *kernels, const cut *c, lists *l)
{
    const uint32_t capacity = qsa_selection_capacity(c->k), few = qsa_few_limit(c->k, c->n_ranges);
    l->all = test_alloc((size_t)c->n_ranges * capacity, sizeof *l->all);
    l->few = guarded_alloc((size_t)c->n_ranges * few * CANDIDATE_FLOATS);
    l->buffer = guarded_alloc((size_t)capacity * CANDIDATE_FLOATS);
    l->ranges = (qsa_ranges){kernels, c->k, c->n_ranges, l->range, candidates_of(&l->few)};
    for (uint32_t i = 0, first = 0; i < c->n_ranges; first = c->ends[i++]) {
        qsa_selection selection;
        qsa_selection_begin(&selection, kernels, l->all + (size_t)i * capacity, capacity, c->k);
        qsa_selection_offer(&selection, c->scores + first, first, c->ends[i] - first);
        qsa_ranges_leave(&l->ranges, i, &selection, candidates_of(&l->buffer));
    }
}

/* And phase 2. False: written outside of its memory. */
static bool merge_ranges(lists *l, uint32_t *out_groups, uint32_t *out_n)
{
    *out_n = qsa_ranges_merge(&l->ranges, candidates_of(&l->buffer), out_groups);
    const bool is_intact = guarded_intact(&l->few) && guarded_intact(&l->buffer);
    guarded_free(&l->few);
    guarded_free(&l->buffer);
    free(l->all);
    return is_intact;
}

static void agrees(const cut *c, const char *replay)
{
    uint32_t expected[MOST_K], found[MOST_K + 1];
    const uint32_t n = sort_all(c, expected);
    const qsa_kernels *kernels;
    for (size_t t = 0; (kernels = qsa_kernels_available(t)) != NULL; t++) {
        uint32_t n_found;
        lists l;
        found[n] = 0x5a5a5a5a;
        scan_ranges(kernels, c, &l);
        const bool is_intact = merge_ranges(&l, found, &n_found);
        if (!is_intact || n_found != n || memcmp(expected, found, n * sizeof *found) != 0 || found[n] != 0x5a5a5a5a)
            fail_msg("%s: %u groups in %u ranges, k %u: not the members of a sort, or written outside; %s",
                     kernels->isa, c->n_groups, c->n_ranges, c->k, replay);
    }
}

/* ---- cases ---- */

/* Where the good scores are: everywhere, in one range, in the first or the last; few different values; all the same. */
enum placing { EVERYWHERE, ONE_RANGE, RISING, FALLING, FEW_VALUES, ALL_EQUAL, PLACINGS };

static float score_at(random_source *r, enum placing placing, bool is_chosen, uint32_t group)
{
    switch (placing) {
    case RISING:
        return (float)group;
    case FALLING:
        return (float)(MOST_GROUPS - group);
    case FEW_VALUES:
        return (float)random_between(r, 0, 3);
    case ALL_EQUAL:
        return 0;
    default:
        return (float)random_between(r, 0, 0xffff) + (placing == ONE_RANGE && is_chosen ? 0x1p17f : 0);
    }
}

static void place_scores(random_source *r, cut *c, enum placing placing)
{
    const uint32_t chosen = (uint32_t)random_between(r, 0, c->n_ranges - 1);
    for (uint32_t i = 0, group = 0; i < c->n_ranges; i++)
        for (; group < c->ends[i]; group++)
            c->scores[group] = score_at(r, placing, i == chosen, group);
}

static void merge_case(uint64_t seed)
{
    static cut c;
    random_source r = {seed};
    c.k = (uint32_t)(random_chance(&r, 2) ? random_between(&r, 1, 40) : random_between(&r, 1, MOST_K));
    c.n_ranges = (uint32_t)random_between(&r, 1, MOST_RANGES);
    c.n_groups = (uint32_t)random_between(&r, 0, random_chance(&r, 2) ? 2 * c.k : MOST_GROUPS);
    for (uint32_t i = 0; i < c.n_ranges; i++)
        c.ends[i] = (uint32_t)random_between(&r, 0, c.n_groups);
    c.ends[c.n_ranges - 1] = c.n_groups;
    qsort(c.ends, c.n_ranges, sizeof *c.ends, ascending);
    place_scores(&r, &c, (enum placing)random_between(&r, 0, PLACINGS - 1));
    char replay[80];
    snprintf(replay, sizeof replay, "QSA_TEST_SEED=%llu test_merge", (unsigned long long)seed);
    agrees(&c, replay);
}

static void merged_ranges_are_the_members_of_a_sort(void **state)
{
    (void)state;
    const char *seed = getenv("QSA_TEST_SEED");
    if (seed != NULL)
        merge_case(strtoull(seed, NULL, 0));
    for (uint64_t i = 0; i < CASES; i++)
        merge_case(i);
}

/* ---- what a merge looks at ---- */

static const qsa_kernels *right;
static uint64_t looked_at;

static uint32_t count_keep(qsa_candidate *candidates, uint32_t n, uint32_t threshold, uint32_t equal)
{
    looked_at += n;
    return right->keep(candidates, n, threshold, equal);
}

/* Candidates that the merge of phase 2 looks at. */
static uint64_t work_of(const cut *c)
{
    right = qsa_kernels_available(0);
    qsa_kernels counting = *right;
    counting.keep = count_keep;
    uint32_t found[MOST_K], n;
    lists l;
    scan_ranges(&counting, c, &l);
    looked_at = 0;
    assert_true(merge_ranges(&l, found, &n));
    assert_int_equal(n, c->k);
    return looked_at;
}

/* 64 ranges that hold 5,952 candidates: 1,280 of them where good scores are everywhere; and those of one range where it
 * has all that is good. */
static void a_merge_looks_at_few_candidates(void **state)
{
    (void)state;
    static cut c = {.k = 512, .n_ranges = 64, .n_groups = 64 * 93};
    random_source r = {7};
    for (uint32_t i = 0; i < c.n_ranges; i++)
        c.ends[i] = (i + 1) * 93;
    const uint64_t few = 64 * qsa_few_limit(512, 64);
    assert_int_equal(few, 1280);
    place_scores(&r, &c, EVERYWHERE);
    assert_true(work_of(&c) <= few);
    place_scores(&r, &c, ONE_RANGE);
    assert_true(work_of(&c) <= 2 * few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_ranges_are_the_members_of_a_sort),
        cmocka_unit_test(a_merge_looks_at_few_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
