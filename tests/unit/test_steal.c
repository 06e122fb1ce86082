/* SPDX-License-Identifier: Apache-2.0 */
/* Work stealing: every task is done once, whoever comes when, and a part that has not begun keeps its own. */
#include "support.h"

#include "device/device.h"
#include "device/host/steal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 9, MOST_TASKS = 40 };

typedef struct world {
    qsa_next_task next[MOST_PARTS];
    uint8_t done[MOST_TASKS]; /* how often */
    uint64_t n;
    uint32_t parts, most;
} world;

static void open_world(world *w, uint64_t n, uint32_t parts, uint32_t most)
{
    *w = (world){.n = n, .parts = parts, .most = most};
    for (uint32_t part = 0; part < MOST_PARTS; part++)
        qsa_steal_reset(&w->next[part]);
}

/* One call for a part; whether it was given tasks. They are counted as done. */
static bool take(world *w, uint32_t part, uint64_t *begin)
{
    uint64_t end;
    if (!qsa_steal(w->next, w->n, part, w->parts, w->most, begin, &end))
        return false;
    assert_true(*begin < end && end <= w->n && end - *begin <= w->most);
    for (uint64_t task = *begin; task < end; task++)
        w->done[task]++;
    return true;
}

static bool is_own(const world *w, uint32_t part, uint64_t task)
{
    uint64_t begin, end;
    qsa_share(w->n, part, w->parts, &begin, &end);
    return task >= begin && task < end;
}

/* One part after the other, as a host with one thread runs them: each does its own tasks and nothing else. */
static void tasks_of_a_part_that_has_not_begun_are_kept(void **state)
{
    (void)state;
    for (uint64_t n = 0; n <= MOST_TASKS; n++)
        for (uint32_t parts = 1; parts <= MOST_PARTS; parts++) {
            world w;
            uint64_t begin;
            open_world(&w, n, parts, 1 + (uint32_t)n % 4);
            for (uint32_t part = 0; part < parts; part++)
                while (take(&w, part, &begin))
                    assert_true(is_own(&w, part, begin));
            for (uint64_t task = 0; task < n; task++)
                assert_int_equal(w.done[task], 1);
        }
}

/* Any order of calls: own tasks come first, and each task once. */
static void every_task_is_done_once_in_any_order(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 2000; round++) {
        world w;
        random = random * 6364136223846793005u + 1442695040888963407u;
        open_world(&w, random >> 40 & 31, 1 + (uint32_t)(random >> 50) % MOST_PARTS, 1 + (uint32_t)(random >> 45) % 5);
        bool is_finished[MOST_PARTS] = {false};
        for (uint32_t left = w.parts; left > 0;) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const uint32_t part = (uint32_t)(random >> 33) % w.parts;
            uint64_t begin;
            if (is_finished[part])
                continue;
            is_finished[part] = !take(&w, part, &begin);
            left -= is_finished[part];
        }
        for (uint64_t task = 0; task < w.n; task++)
            assert_int_equal(w.done[task], 1);
    }
}

/* Two have begun; the first is held up, and the second steals what is left of its tasks. */
static void a_part_that_is_done_steals_from_one_that_has_begun(void **state)
{
    (void)state;
    world w;
    uint64_t begin;
    open_world(&w, 30, 3, 1);
    assert_true(take(&w, 0, &begin));
    int own = 0, stolen = 0;
    while (take(&w, 1, &begin)) {
        assert_false(is_own(&w, 2, begin)); /* it has not begun */
        own += is_own(&w, 1, begin);
        stolen += is_own(&w, 0, begin);
    }
    assert_int_equal(own, 10);
    assert_int_equal(stolen, 9);
    assert_false(take(&w, 0, &begin));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_of_a_part_that_has_not_begun_are_kept),
        cmocka_unit_test(every_task_is_done_once_in_any_order),
        cmocka_unit_test(a_part_that_is_done_steals_from_one_that_has_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
