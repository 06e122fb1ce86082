/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool of the forward pass: every unit runs once, operations follow one another, workers compute in the
 * default floating point environment. */
/* nanosleep is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "support.h"

#include "model/worker_pool.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1000, THREADS = 4 };

typedef struct tally {
    atomic_int runs[MOST];
} tally;

static const int context = 0;

static void count_units(const void *given, const void *operation, size_t begin, size_t end)
{
    tally *t = (tally *)(uintptr_t)operation;
    for (size_t i = begin; i < end; i++)
        t->runs[i] += given == &context;
}

static worker_pool *pool_of(uint32_t threads)
{
    worker_pool *w = NULL;
    assert_int_equal(worker_pool_create(threads, &w), QSA_OK);
    assert_int_equal(worker_pool_count(w), threads);
    return w;
}

static void every_unit_runs_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, MOST};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (uint32_t threads = 1; threads <= THREADS; threads++) {
        worker_pool *w = pool_of(threads);
        for (size_t a = 0; a < SIZES; a++)
            for (size_t b = 0; b < SIZES; b++) {
                tally *t = test_alloc(2, sizeof *t);
                const task tasks[] = {{count_units, &t[0], sizes[a], 1 + a}, {count_units, &t[1], sizes[b], 1 + a * b}};
                worker_pool_run(w, &context, tasks, 2);
                for (size_t i = 0; i < MOST; i++)
                    assert_true(t[0].runs[i] == (i < sizes[a]) && t[1].runs[i] == (i < sizes[b]));
                free(t);
            }
        worker_pool_destroy(w);
    }
}

typedef struct chain {
    const int *from;
    int *to;
} chain;

static void add_one(const void *given, const void *operation, size_t begin, size_t end)
{
    (void)given;
    const chain *c = operation;
    for (size_t i = begin; i < end; i++)
        c->to[i] = c->from[MOST - 1 - i] + 1;
}

/* Each operation reads what the one before wrote, from the other end; now and then all workers are asleep. */
static void operations_follow_one_another(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= THREADS; threads++) {
        worker_pool *w = pool_of(threads);
        int numbers[2][MOST] = {{0}};
        for (int i = 0; i < 2000; i++) {
            const chain c = {numbers[i % 2], numbers[(i + 1) % 2]};
            worker_pool_run(w, &context, &(task){add_one, &c, MOST, 1}, 1);
            if (i % 500 == 0)
                nanosleep(&(struct timespec){0, 2000000}, NULL);
        }
        for (int i = 0; i < MOST; i++)
            assert_int_equal(numbers[0][i], 2000);
        worker_pool_destroy(w);
    }
}

static void note_rounding(const void *given, const void *operation, size_t begin, size_t end)
{
    (void)given;
    for (size_t i = begin; i < end; i++)
        ((int *)(uintptr_t)operation)[i] = fegetround();
}

/* The caller's own environment is the caller's affair: forward_run sets it. */
static void workers_round_to_nearest_whoever_made_them(void **state)
{
    (void)state;
    fesetround(FE_UPWARD);
    worker_pool *w = pool_of(THREADS);
    fesetround(FE_TONEAREST);
    static int rounding[MOST];
    worker_pool_run(w, &context, &(task){note_rounding, rounding, MOST, 10}, 1);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(rounding[i], FE_TONEAREST);
    worker_pool_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unit_runs_once),
        cmocka_unit_test(operations_follow_one_another),
        cmocka_unit_test(workers_round_to_nearest_whoever_made_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
