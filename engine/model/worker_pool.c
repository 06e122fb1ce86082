/* SPDX-License-Identifier: Apache-2.0 */
/* clock_gettime and sysconf are POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/worker_pool.h"

#include "base/error.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_NS = 50000, SPINS = 16 };

/* Data that changes while workers run has cache lines of its own. */
struct worker_pool {
    uint32_t count;
    int64_t watch_ns; /* how long to poll before sleeping */
    const void *context;
    const task *tasks;
    size_t n, grains; /* all n tasks of the operation together */
    bool stop;        /* these belong to a round: written before it starts */

    _Alignas(64) atomic_uint_fast64_t round; /* counts operations; every worker takes part in each */
    _Alignas(64) atomic_size_t next;         /* first grain that no thread has taken */
    _Alignas(64) atomic_uint running;        /* workers that have not finished the round */

    pthread_mutex_t mutex; /* guards sleeping and waking */
    pthread_cond_t work, done;
    uint32_t sleeping; /* workers that wait for `work` */
    bool caller_sleeps;
    pthread_t threads[]; /* [count - 1] */
};

/* ---- waiting ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool is_round_after(const worker_pool *w, uint64_t seen)
{
    return atomic_load_explicit(&w->round, memory_order_acquire) != seen;
}

static bool is_finished(const worker_pool *w, uint64_t unused)
{
    (void)unused;
    return atomic_load_explicit(&w->running, memory_order_acquire) == 0;
}

/* Spins, then yields in a loop for watch_ns; returns whether the condition became true. */
static bool watch(const worker_pool *w, bool (*is_true)(const worker_pool *w, uint64_t argument), uint64_t argument)
{
    for (int i = 0; i < SPINS; i++) {
        if (is_true(w, argument))
            return true;
        relax();
    }
    const int64_t until = now_ns() + w->watch_ns;
    do {
        sched_yield();
        if (is_true(w, argument))
            return true;
    } while (now_ns() < until);
    return false;
}

static void await_round(worker_pool *w, uint64_t seen)
{
    if (watch(w, is_round_after, seen))
        return;
    pthread_mutex_lock(&w->mutex);
    w->sleeping++;
    while (!is_round_after(w, seen))
        pthread_cond_wait(&w->work, &w->mutex);
    w->sleeping--;
    pthread_mutex_unlock(&w->mutex);
}

static void await_workers(worker_pool *w)
{
    if (watch(w, is_finished, 0))
        return;
    pthread_mutex_lock(&w->mutex);
    w->caller_sleeps = true;
    while (!is_finished(w, 0))
        pthread_cond_wait(&w->done, &w->mutex);
    w->caller_sleeps = false;
    pthread_mutex_unlock(&w->mutex);
}

/* Under the mutex, so that no worker goes to sleep between its last look and its wait. */
static void hand_out_round(worker_pool *w)
{
    pthread_mutex_lock(&w->mutex);
    atomic_fetch_add_explicit(&w->round, 1, memory_order_release);
    if (w->sleeping > 0)
        pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->mutex);
}

/* The last worker of a round wakes the caller. */
static void finish_round(worker_pool *w)
{
    if (atomic_fetch_sub_explicit(&w->running, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&w->mutex);
    if (w->caller_sleeps)
        pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->mutex);
}

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

static void take_grains(worker_pool *w)
{
    size_t begin = atomic_load_explicit(&w->next, memory_order_relaxed);
    while (begin < w->grains) {
        const size_t end = begin + run_length(w, w->grains - begin);
        if (atomic_compare_exchange_weak_explicit(&w->next, &begin, end, memory_order_relaxed, memory_order_relaxed)) {
            run_grains(w, begin, end);
            begin = atomic_load_explicit(&w->next, memory_order_relaxed);
        }
    }
}

static void *worker_main(void *argument)
{
    worker_pool *w = argument;
    fesetenv(FE_DFL_ENV); /* the default, not the one inherited from the creator */
    for (uint64_t seen = 0;; seen++) {
        await_round(w, seen);
        if (w->stop)
            return NULL;
        take_grains(w);
        finish_round(w);
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
    atomic_store_explicit(&w->running, w->count - 1, memory_order_relaxed);
    hand_out_round(w);
    take_grains(w);
    await_workers(w);
}

/* ---- life ---- */

uint32_t worker_pool_count(const worker_pool *w)
{
    return w->count;
}

static void stop(worker_pool *w, uint32_t started)
{
    w->stop = true;
    hand_out_round(w);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->done);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

qsa_status worker_pool_create(uint32_t count, worker_pool **out_pool)
{
    const size_t bytes = (sizeof(worker_pool) + (count - 1) * sizeof(pthread_t) + 63) / 64 * 64;
    worker_pool *w = aligned_alloc(64, bytes);
    if (w == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a pool of %u threads", count);
    *w = (worker_pool){.count = count, .watch_ns = count <= sysconf(_SC_NPROCESSORS_ONLN) ? WATCH_NS : 0};
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->work, NULL);
    pthread_cond_init(&w->done, NULL);
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (pthread_create(&w->threads[i], NULL, worker_main, w) != 0) {
            stop(w, i);
            return engine_fail(QSA_E_IO, "the system starts only %u of %u threads", i + 1, count);
        }
    }
    *out_pool = w;
    return QSA_OK;
}

void worker_pool_destroy(worker_pool *w)
{
    if (w != NULL)
        stop(w, w->count - 1);
}
