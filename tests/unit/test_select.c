/* Membership against a full sort, ties above all; the row that follows from it. */
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the slow way ---- */

static const float *sorted_scores;

static int by_score_then_position(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (sorted_scores[i] != sorted_scores[j])
        return sorted_scores[i] > sorted_scores[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int by_position(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i < j ? -1 : i > j;
}

static uint32_t sort_all(const float *scores, uint32_t n, uint32_t k, uint32_t *out)
{
    sorted_scores = scores;
    uint32_t *order = test_alloc(n, sizeof *order), count = n < k ? n : k;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort(order, n, sizeof *order, by_score_then_position);
    qsort(order, count, sizeof *order, by_position);
    memcpy(out, order, count * sizeof *order);
    free(order);
    return count;
}

enum { GUARD = 8 };

/* Equal to the full sort, with nothing written beyond. */
static void agrees(const char *what, const float *scores, uint32_t n, uint32_t k)
{
    uint32_t most = n < k ? n : k, count = 0;
    uint32_t *expected = test_alloc(most, sizeof *expected), *found = test_alloc(most + GUARD, sizeof *found);
    memset(found, 0x5a, (most + GUARD) * sizeof *found);
    sort_all(scores, n, k, expected);
    world_ok(qsa_select(scores, n, k, found, &count));
    if (count != most || memcmp(expected, found, most * sizeof *found) != 0)
        fail_msg("%s: %u scores, k %u: not the members of a full sort", what, n, k);
    for (uint32_t i = most; i < most + GUARD; i++)
        assert_int_equal(found[i], 0x5a5a5a5a);
    free(expected);
    free(found);
}

static float *room(uint32_t n)
{
    return test_alloc(n, sizeof(float));
}

static uint32_t *chosen(const float *scores, uint32_t n, uint32_t k)
{
    uint32_t *groups = test_alloc(k, sizeof *groups), count;
    world_ok(qsa_select(scores, n, k, groups, &count));
    assert_int_equal(count, n < k ? n : k);
    return groups;
}

/* ---- the shapes of a tie ---- */

static void equal_scores_go_to_the_lowest_groups(void **state)
{
    (void)state;
    static const float values[] = {0, 1e-45f, 1, 3.4e38f};
    float *scores = room(65537);
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (uint32_t n = 1; n <= 65537; n = n < 600 ? n + 1 : n * 3) {
            for (uint32_t i = 0; i < n; i++)
                scores[i] = values[v];
            uint32_t *groups = chosen(scores, n, 512);
            for (uint32_t i = 0; i < n && i < 512; i++)
                assert_int_equal(groups[i], i);
            free(groups);
        }
    free(scores);
}

static void ties_across_the_last_rank_are_cut_by_position(void **state)
{
    (void)state;
    float *scores = room(5000);
    for (uint32_t better = 0; better <= 512; better += 64) {
        for (uint32_t i = 0; i < 5000; i++)
            scores[i] = 1;
        for (uint32_t i = 0; i < better; i++)
            scores[4999 - 7 * i] = 2;
        agrees("ties across rank 512", scores, 5000, 512);
    }
    for (uint32_t block = 1; block <= 2048; block *= 2) {
        for (uint32_t i = 0; i < 5000; i++)
            scores[i] = (float)(i / block % 5);
        agrees("blocks of equal scores", scores, 5000, 512);
    }
    free(scores);
}

/* More ties than any buffer: 100 winners, then the 412 lowest of 8,220 zeros. */
static void exact_zeros_fill_up_in_order(void **state)
{
    (void)state;
    float *scores = room(8320);
    for (uint32_t i = 0; i < 100; i++)
        scores[83 * i + 11] = 1;
    agrees("zeros", scores, 8320, 512);
    uint32_t *groups = chosen(scores, 8320, 512), winners = 0;
    for (uint32_t i = 0; i < 512; i++) {
        winners += scores[groups[i]] == 1;
        assert_true(i == 0 || groups[i] > groups[i - 1]);
    }
    assert_int_equal(winners, 100);
    free(groups);
    memset(scores, 0, 600 * sizeof *scores);
    agrees("600 zeros", scores, 600, 512);
    free(scores);
}

/* 65,504 scores that a half-precision first pass could not tell apart in bins of 8,192. */
static void close_scores_are_told_apart(void **state)
{
    (void)state;
    const uint32_t n = 65504;
    float *scores = room(n);
    for (uint32_t i = 0; i < n; i++)
        scores[i] = 1 + (float)(i * 40507u % n) * 0x1p-23f; /* 40507 and n have no common divisor: a permutation */
    uint32_t *groups = chosen(scores, n, 512);
    for (uint32_t i = 0; i < 512; i++)
        assert_true(groups[i] * 40507u % n >= n - 512);
    free(groups);
    agrees("close scores", scores, n, 512);
    static const uint32_t ascending[] = {16384, 16448};
    for (int a = 0; a < 2; a++) {
        for (uint32_t i = 0; i < ascending[a]; i++)
            scores[i] = (float)i;
        agrees("ascending", scores, ascending[a], 512);
        for (uint32_t i = 0; i < ascending[a]; i++)
            scores[i] = (float)(ascending[a] - i);
        agrees("descending", scores, ascending[a], 512);
    }
    free(scores);
}

static void scores_outside_half_precision_keep_their_order(void **state)
{
    (void)state;
    float scores[600];
    for (int small = 0; small < 2; small++) {
        for (uint32_t i = 0; i < 600; i++)
            scores[i] = small ? 1e-9f * (float)(i + 1) : 70000 + (float)i;
        uint32_t *groups = chosen(scores, 600, 512);
        for (uint32_t i = 0; i < 512; i++)
            assert_int_equal(groups[i], 88 + i);
        free(groups);
    }
    float close[] = {1.0f, 1.0010f}; /* equal in bf16 */
    uint32_t *groups = chosen(close, 2, 1);
    assert_int_equal(groups[0], 1);
    free(groups);
}

/* Rows of all widths, tie-heavy and well spread in turn: no row inherits anything from the one before. */
static void rows_do_not_depend_on_the_rows_before(void **state)
{
    (void)state;
    float *scores = room(65537);
    for (uint32_t row = 0; row < 66; row++) {
        uint32_t n = row < 33 ? 1 + (uint32_t)(golden_bits64(1, row) % 65537) : 1 + (65 - row) * 1986;
        for (uint32_t i = 0; i < n; i++) {
            float x = fabsf(golden_value(row, i));
            scores[i] = row % 2 ? floorf(x * 3) : x;
        }
        agrees("rows in turn", scores, n, 512);
    }
    free(scores);
}

static void every_small_width_and_budget_agrees_with_a_sort(void **state)
{
    (void)state;
    float scores[130];
    for (uint32_t n = 0; n <= 130; n++)
        for (uint32_t k = 1; k <= 130; k = k < 5 ? k + 1 : k + 31) {
            for (uint32_t i = 0; i < n; i++)
                scores[i] = floorf(fabsf(golden_value(n, i)) * (float)(1 + n % 7));
            if (n > 0)
                agrees("small", scores, n, k);
        }
    uint32_t count = 7;
    world_ok(qsa_select(NULL, 0, 512, NULL, &count));
    assert_int_equal(count, 0);
}

static void largest_budget_is_selected_too(void **state)
{
    (void)state;
    const uint32_t n = 200000;
    float *scores = room(n);
    for (uint32_t i = 0; i < n; i++)
        scores[i] = floorf(fabsf(golden_value(9, i)) * 100);
    agrees("budget of 65,536", scores, n, 65536);
    agrees("budget of 1", scores, n, 1);
    free(scores);
}

static void what_is_no_score_is_refused(void **state)
{
    (void)state;
    float scores[70] = {0};
    uint32_t groups[70] = {77}, n = 5;
    static const float bad[] = {NAN, INFINITY, -INFINITY, -1, -0.0f, -1e-45f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scores[67] = bad[i];
        world_refused(QSA_E_NONFINITE, "group 67", qsa_select(scores, 70, 4, groups, &n));
    }
    scores[67] = 0;
    world_refused(QSA_E_ARGUMENT, "k = 0", qsa_select(scores, 70, 0, groups, &n));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_select(NULL, 70, 4, groups, &n));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_select(scores, 70, 4, NULL, &n));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_select(scores, 70, 4, groups, NULL));
    world_refused(QSA_E_LIMIT, "k 65537", qsa_select(scores, 70, 65537, groups, &n));
    assert_int_equal(groups[0], 77);
    assert_int_equal(n, 5);
}

/* ---- scores ---- */

/* Integers are exact in f32: any wrong sum shows. */
static void head_sums_are_exact_integers(void **state)
{
    (void)state;
    enum { HEADS = 4, DIM = 8, GROUPS = 65536, QUERIES = 2 };
    float *pooled = room(GROUPS * DIM), *scores = room(GROUPS), query[HEADS * DIM];
    for (uint32_t i = 0; i < GROUPS * DIM; i++)
        pooled[i] = (float)(int)(golden_bits64(3, i) % 65) - 32;
    for (uint32_t q = 0; q < QUERIES; q++) {
        for (uint32_t i = 0; i < HEADS * DIM; i++)
            query[i] = (float)(int)(golden_bits64(4 + q, i) % 65) - 32;
        world_ok(qsa_score(query, HEADS, DIM, pooled, GROUPS, scores));
        for (uint32_t g = 0; g < GROUPS; g++) {
            long expected = 0;
            for (int h = 0; h < HEADS; h++) {
                long dot = 0;
                for (int d = 0; d < DIM; d++)
                    dot += (long)query[h * DIM + d] * (long)pooled[g * DIM + (uint32_t)d];
                expected += dot > 0 ? dot : 0;
            }
            assert_true(scores[g] == (float)expected && !signbit(scores[g]));
        }
    }
    free(pooled);
    free(scores);
}

static void score_refuses_what_is_not_finite(void **state)
{
    (void)state;
    float query[8] = {0}, pooled[8] = {0}, scores[2] = {5, 5};
    query[5] = NAN;
    world_refused(QSA_E_NONFINITE, "index query head 1", qsa_score(query, 2, 4, pooled, 2, scores));
    query[5] = 0;
    pooled[7] = INFINITY;
    world_refused(QSA_E_NONFINITE, "pooled key of group 1", qsa_score(query, 2, 4, pooled, 2, scores));
    pooled[7] = 0x1p57f;
    world_refused(QSA_E_NONFINITE, "pooled key of group 1", qsa_score(query, 2, 4, pooled, 2, scores));
    world_refused(QSA_E_ARGUMENT, "0 heads", qsa_score(query, 0, 4, pooled, 2, scores));
    world_refused(QSA_E_ARGUMENT, "1025", qsa_score(query, 1, 1025, pooled, 2, scores));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_score(NULL, 2, 4, pooled, 2, scores));
    assert_true(scores[0] == 5 && scores[1] == 5);
}

/* ---- rows ---- */

/* The whole released shape at every length to 4,200: every row strictly ascending, 4 * min(512, g) + n mod 4 long; up
 * to 2,051 the dense one; beyond it the members of a full sort and the tail. */
static void rows_are_right_at_every_length(void **state)
{
    (void)state;
    float scores[1050];
    uint32_t groups[512], expected[512], row[2052], n_groups, n_row;
    for (uint32_t n = 1; n <= 4200; n++) {
        uint32_t g = n / 4;
        for (uint32_t i = 0; i < g; i++)
            scores[i] = n % 3 ? fabsf(golden_value(n, i)) : floorf(fabsf(golden_value(n, i)) * 3);
        world_ok(qsa_select(scores, g, 512, groups, &n_groups));
        world_ok(qsa_selected_tokens(groups, n_groups, 4, n, row, &n_row));
        assert_int_equal(sort_all(scores, g, 512, expected), n_groups);
        assert_memory_equal(groups, expected, n_groups * sizeof *groups);
        assert_int_equal(n_row, 4 * (g < 512 ? g : 512) + n % 4);
        for (uint32_t i = 0; i < n_row; i++)
            assert_true(n <= 2051 ? row[i] == i : i == 0 || row[i] > row[i - 1]);
        for (uint32_t t = 0; t < n % 4; t++)
            assert_int_equal(row[n_row - 1 - t], n - 1 - t);
    }
}

static void row_expands_groups_and_appends_the_tail(void **state)
{
    (void)state;
    static const uint32_t expected[] = {4, 5, 6, 7, 12, 13, 14, 15, 16, 17};
    uint32_t row[16], n;
    world_ok(qsa_selected_tokens((const uint32_t[]){1, 3}, 2, 4, 18, row, &n));
    assert_int_equal(n, 10);
    assert_memory_equal(row, expected, sizeof expected);
    world_ok(qsa_selected_tokens(NULL, 0, 4, 3, row, &n));
    assert_int_equal(n, 3);
    world_ok(qsa_selected_tokens((const uint32_t[]){0, 2}, 2, 1, 3, row, &n));
    assert_int_equal(n, 2);
    world_refused(QSA_E_ARGUMENT, "group 4 at place 1",
                  qsa_selected_tokens((const uint32_t[]){1, 4}, 2, 4, 18, row, &n));
    world_refused(QSA_E_ARGUMENT, "group 1 at place 1",
                  qsa_selected_tokens((const uint32_t[]){1, 1}, 2, 4, 18, row, &n));
    world_refused(QSA_E_ARGUMENT, "group 0 at place 1",
                  qsa_selected_tokens((const uint32_t[]){1, 0}, 2, 4, 18, row, &n));
    world_refused(QSA_E_ARGUMENT, "ratio 6", qsa_selected_tokens(NULL, 0, 6, 18, row, &n));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_selected_tokens(NULL, 1, 4, 18, row, &n));
    world_refused(QSA_E_ARGUMENT, "many tokens", qsa_selected_tokens(NULL, 0, 4, (uint64_t)UINT32_MAX + 1, row, &n));
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scores_go_to_the_lowest_groups),
        cmocka_unit_test(ties_across_the_last_rank_are_cut_by_position),
        cmocka_unit_test(exact_zeros_fill_up_in_order),
        cmocka_unit_test(close_scores_are_told_apart),
        cmocka_unit_test(scores_outside_half_precision_keep_their_order),
        cmocka_unit_test(rows_do_not_depend_on_the_rows_before),
        cmocka_unit_test(every_small_width_and_budget_agrees_with_a_sort),
        cmocka_unit_test(largest_budget_is_selected_too),
        cmocka_unit_test(what_is_no_score_is_refused),
        cmocka_unit_test(head_sums_are_exact_integers),
        cmocka_unit_test(score_refuses_what_is_not_finite),
        cmocka_unit_test(rows_are_right_at_every_length),
        cmocka_unit_test(row_expands_groups_and_appends_the_tail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
