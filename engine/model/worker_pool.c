/* SPDX-License-Identifier: Apache-2.0 */
/* Shares the units of an operation among the threads of libqsa's pool. */
#include "model/worker_pool.h"

#include "base/error.h"

#include <qsa/threads.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CACHE_LINE = 64 };

struct worker_pool {
    qsa_threads *threads;
    uint32_t count;
    const void *context;
    const task *tasks;
    size_t n, grains; /* all n tasks of the operation together */

    _Alignas(CACHE_LINE) atomic_size_t next; /* first grain that no thread has taken; a cache line of its own */
};

/* ---- working ---- */

/* Whether waking others pays: there are at least two whole grains. */
static bool is_worth_sharing(const task *tasks, size_t n)
{
    size_t whole = 0;
    for (size_t i = 0; i < n; i++)
        whole += tasks[i].units / tasks[i].grain;
    return whole >= 2;
}

static size_t grains_of(const task *t)
{
    return (t->units + t->grain - 1) / t->grain;
}

/* A quarter of an even share of the remaining grains. */
static size_t run_length(const worker_pool *w, size_t left)
{
    const size_t length = left / (4 * (size_t)w->count);
    return length > 0 ? length : 1;
}

/* Runs grains [begin, end), counted over all tasks. */
static void run_grains(const worker_pool *w, size_t begin, size_t end)
{
    for (size_t i = 0; i < w->n && end > 0; i++) {
        const task *t = &w->tasks[i];
        const size_t all = grains_of(t), last = end < all ? end : all;
        if (begin < last) {
            const size_t stop = last * t->grain;
            t->run(w->context, t->operation, begin * t->grain, stop < t->units ? stop : t->units);
        }
        begin = begin > all ? begin - all : 0;
        end -= last;
    }
}

static void take_grains(void *context, uint32_t part, uint32_t parts)
{
    worker_pool *w = context;
    (void)part, (void)parts;
    size_t begin = atomic_load_explicit(&w->next, memory_order_relaxed);
    while (begin < w->grains) {
        const size_t end = begin + run_length(w, w->grains - begin);
        if (atomic_compare_exchange_weak_explicit(&w->next, &begin, end, memory_order_relaxed, memory_order_relaxed)) {
            run_grains(w, begin, end);
            begin = atomic_load_explicit(&w->next, memory_order_relaxed);
        }
    }
}

void worker_pool_run(worker_pool *w, const void *context, const task *tasks, size_t n)
{
    w->context = context;
    w->tasks = tasks;
    w->n = n;
    w->grains = 0;
    for (size_t i = 0; i < n; i++)
        w->grains += grains_of(&tasks[i]);
    if (w->count == 1 || !is_worth_sharing(tasks, n)) {
        run_grains(w, 0, w->grains);
        return;
    }
    atomic_store_explicit(&w->next, 0, memory_order_relaxed);
    (void)qsa_threads_run(w->threads, take_grains, w); /* fails for NULL only */
}

/* ---- life ---- */

uint32_t worker_pool_count(const worker_pool *w)
{
    return w->count;
}

qsa_status worker_pool_create(uint32_t count, worker_pool **out_pool)
{
    worker_pool *w = aligned_alloc(CACHE_LINE, sizeof *w);
    if (w == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a pool of %u threads", count);
    *w = (worker_pool){.count = count};
    const qsa_status status = qsa_threads_create(count, &w->threads);
    if (status != QSA_OK) {
        free(w);
        return engine_fail_as_library(status);
    }
    *out_pool = w;
    return QSA_OK;
}

void worker_pool_destroy(worker_pool *w)
{
    if (w == NULL)
        return;
    qsa_threads_destroy(w->threads);
    free(w);
}
