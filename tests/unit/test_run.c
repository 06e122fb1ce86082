/* Logical positions: what a list of positions is, and what a query sees. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

static qsa_view view_of(int64_t anchor, int64_t position, uint32_t ratio, uint32_t budget, uint64_t window)
{
    qsa_view view;
    world_ok(qsa_run_view(anchor, position, ratio, budget, window, &view));
    return view;
}

static void view_is_the_table_of_the_specification(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, groups;
        uint32_t tail;
        uint64_t attended;
    } table[] = {{1, 0, 1, 1},         {2, 0, 2, 2},         {3, 0, 3, 3},
                 {4, 1, 0, 4},         {2048, 512, 0, 2048}, {2051, 512, 3, 2051},
                 {2052, 513, 0, 2048}, {2055, 513, 3, 2051}, {262144, 65536, 0, 2048}};
    static const int64_t anchors[] = {0, 1, 2, 3, 100, QSA_MAX_POSITION - 262143};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t a = 0; a < sizeof anchors / sizeof *anchors; a++) {
            qsa_view view = view_of(anchors[a], anchors[a] + (int64_t)table[i].n - 1, 4, 2048, 0);
            assert_int_equal(view.anchor, anchors[a]);
            assert_int_equal(view.tokens, table[i].n);
            assert_int_equal(view.first_group, 0);
            assert_int_equal(view.groups, table[i].groups);
            assert_int_equal(view.tail, table[i].tail);
            assert_int_equal(view.attended, table[i].attended);
        }
}

static void view_follows_the_formula_at_every_length_and_ratio(void **state)
{
    (void)state;
    for (uint32_t ratio = 1; ratio <= QSA_MAX_RATIO; ratio *= 2)
        for (uint32_t n = 1; n <= 4200; n++) {
            qsa_view view = view_of(7, 6 + (int64_t)n, ratio, 2048, 0);
            uint32_t groups = n / ratio, most = 2048 / ratio;
            assert_int_equal(view.groups, groups);
            assert_int_equal(view.tail, n % ratio);
            assert_int_equal(view.attended, ratio * (groups < most ? groups : most) + n % ratio);
        }
}

/* anchor(p) by its definition: the smallest boundary of a group that leaves at most `window` tokens. */
static int64_t slow_anchor(int64_t anchor, int64_t position, uint32_t ratio, uint64_t window)
{
    while ((uint64_t)(position - anchor + 1) > window)
        anchor += ratio;
    return anchor;
}

static void window_moves_the_anchor_by_whole_groups(void **state)
{
    (void)state;
    for (uint64_t window = 4; window <= 40; window++)
        for (int64_t p = 50; p < 200; p++) {
            qsa_view view = view_of(50, p, 4, 8, window);
            int64_t anchor = slow_anchor(50, p, 4, window);
            assert_int_equal(view.anchor, anchor);
            assert_int_equal(view.tokens, p - anchor + 1);
            assert_int_equal(view.first_group, (anchor - 50) / 4);
            assert_true(view.tokens >= 1 && view.tokens <= window);
        }
}

static void view_refuses_what_is_none(void **state)
{
    (void)state;
    qsa_view view;
    memset(&view, 0x5a, sizeof view);
    qsa_view before = view;
    world_refused(QSA_E_RANGE, "position 4", qsa_run_view(5, 4, 4, 8, 0, &view));
    world_refused(QSA_E_ARGUMENT, "ratio 3", qsa_run_view(0, 4, 3, 9, 0, &view));
    world_refused(QSA_E_ARGUMENT, "ratio 0", qsa_run_view(0, 4, 0, 8, 0, &view));
    world_refused(QSA_E_ARGUMENT, "ratio 128", qsa_run_view(0, 4, 128, 128, 0, &view));
    world_refused(QSA_E_ARGUMENT, "budget 10", qsa_run_view(0, 4, 4, 10, 0, &view));
    world_refused(QSA_E_ARGUMENT, "budget 0", qsa_run_view(0, 4, 4, 0, 0, &view));
    world_refused(QSA_E_ARGUMENT, "window 3", qsa_run_view(0, 4, 4, 8, 3, &view));
    world_refused(QSA_E_LIMIT, "2147483647", qsa_run_view(-1, 4, 4, 8, 0, &view));
    world_refused(QSA_E_LIMIT, "2147483647", qsa_run_view(0, QSA_MAX_POSITION + 1, 4, 8, 0, &view));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_run_view(0, 4, 4, 8, 0, NULL));
    assert_memory_equal(&view, &before, sizeof view);
}

/* ---- classification ---- */

static qsa_run run_of(const int64_t *positions, const uint8_t *is_token, size_t n)
{
    qsa_run run;
    world_ok(qsa_run_classify(positions, is_token, n, &run));
    return run;
}

static void classify_accepts_runs_and_padding_outside(void **state)
{
    (void)state;
    qsa_run run = run_of((const int64_t[]){100, 101, 102, 103, 104}, NULL, 5);
    assert_int_equal(run.padding, 0);
    assert_int_equal(run.tokens, 5);
    assert_int_equal(run.anchor, 100);
    assert_int_equal(run.frontier, 105);
    run = run_of((const int64_t[]){4096, 4097, 4098, 4099}, NULL, 4);
    assert_int_equal(run.anchor, 4096);
    run = run_of((const int64_t[]){-7, 999, 5, 6, -1}, (const uint8_t[]){0, 0, 1, 1, 0}, 5);
    assert_int_equal(run.padding, 2);
    assert_int_equal(run.tokens, 2);
    assert_int_equal(run.anchor, 5);
    assert_int_equal(run.frontier, 7);
    run = run_of((const int64_t[]){1, 2}, (const uint8_t[]){0, 0}, 2);
    assert_int_equal(run.padding, 2);
    assert_int_equal(run.tokens, 0);
    assert_int_equal(run.frontier, 0);
    run = run_of(NULL, NULL, 0);
    assert_int_equal(run.tokens, 0);
    run = run_of((const int64_t[]){QSA_MAX_POSITION}, NULL, 1);
    assert_int_equal(run.frontier, QSA_MAX_POSITION + 1);
}

static void classify_names_the_first_break(void **state)
{
    (void)state;
    qsa_run run = {1, 2, 3, 4}, before = run;
    static const int64_t hole[] = {100, 101, 103, 104}, again[] = {100, 101, 101}, back[] = {100, 101, 100},
                         low[] = {-1, 0}, high[] = {QSA_MAX_POSITION, QSA_MAX_POSITION + 1};
    world_refused(QSA_E_HOLE, "entry 2: expected position 102, found 103", qsa_run_classify(hole, NULL, 4, &run));
    world_refused(QSA_E_HOLE, "entry 2: expected position 102, found 101", qsa_run_classify(again, NULL, 3, &run));
    world_refused(QSA_E_HOLE, "entry 2: expected position 102, found 100", qsa_run_classify(back, NULL, 3, &run));
    world_refused(QSA_E_LIMIT, "entry 0: position -1", qsa_run_classify(low, NULL, 2, &run));
    world_refused(QSA_E_LIMIT, "entry 1", qsa_run_classify(high, NULL, 2, &run));
    world_refused(QSA_E_HOLE, "entry 2",
                  qsa_run_classify((const int64_t[]){5, 0, 6}, (const uint8_t[]){1, 0, 1}, 3, &run));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_run_classify(NULL, NULL, 1, &run));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_run_classify(hole, NULL, 4, NULL));
    assert_memory_equal(&run, &before, sizeof run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(view_is_the_table_of_the_specification),
        cmocka_unit_test(view_follows_the_formula_at_every_length_and_ratio),
        cmocka_unit_test(window_moves_the_anchor_by_whole_groups),
        cmocka_unit_test(view_refuses_what_is_none),
        cmocka_unit_test(classify_accepts_runs_and_padding_outside),
        cmocka_unit_test(classify_names_the_first_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
