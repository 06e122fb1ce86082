/* SPDX-License-Identifier: Apache-2.0 */
/* qsa_threads: a thread pool that runs rounds: every thread its part, then a barrier. A thread that waits spins for
 * less than a microsecond, then polls for watch_ns, yielding its processor, and then sleeps on a condition variable:
 * the next round nearly always comes at once, and waking a sleeping thread takes as long as a small round. A pool with
 * more threads than processors does not poll. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, sysconf */
#include "base/float_env.h"
#include "base/memory.h"
#include "base/status.h"

#include <assert.h>
#include <fenv.h>
#include <inttypes.h>
#include <pthread.h>
#include <qsa/threads.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct pool_worker {
    qsa_threads *pool;
    uint32_t part;
    pthread_t thread;
} pool_worker;

enum { WATCH_NS = 50000, SPINS = 16, CACHE_LINE = 64 };

/* Data that changes while workers run has cache lines of its own. */
struct qsa_threads {
    uint32_t count;   /* parts: the workers and the caller */
    int64_t watch_ns; /* how long to poll before sleeping */
    qsa_thread_work *work;
    void *context;
    bool stop; /* these three belong to a round: written before it starts */

    _Alignas(CACHE_LINE) atomic_uint_fast64_t round; /* counts rounds; a worker takes part in each */
    _Alignas(CACHE_LINE) atomic_uint running;        /* workers that have not finished the round */

    _Alignas(CACHE_LINE) pthread_mutex_t mutex; /* guards sleeping and waking */
    pthread_cond_t begun, done;
    uint32_t sleeping; /* workers that wait for `begun` */
    bool caller_sleeps;
    pool_worker workers[]; /* [count - 1] */
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

static bool is_round_after(const qsa_threads *pool, uint64_t seen)
{
    return atomic_load_explicit(&pool->round, memory_order_acquire) != seen;
}

static bool is_finished(const qsa_threads *pool, uint64_t unused)
{
    (void)unused;
    return atomic_load_explicit(&pool->running, memory_order_acquire) == 0;
}

typedef bool pool_condition(const qsa_threads *pool, uint64_t argument);

/* Spins, then polls for watch_ns; returns whether the condition became true. */
static bool watch(const qsa_threads *pool, pool_condition *is_true, uint64_t argument)
{
    for (int i = 0; i < SPINS; i++) {
        if (is_true(pool, argument))
            return true;
        relax();
    }
    const int64_t until = now_ns() + pool->watch_ns;
    do {
        sched_yield();
        if (is_true(pool, argument))
            return true;
    } while (now_ns() < until);
    return false;
}

static void await_round(qsa_threads *pool, uint64_t seen)
{
    if (watch(pool, is_round_after, seen))
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->sleeping++;
    while (!is_round_after(pool, seen))
        pthread_cond_wait(&pool->begun, &pool->mutex);
    pool->sleeping--;
    pthread_mutex_unlock(&pool->mutex);
}

static void await_workers(qsa_threads *pool)
{
    if (watch(pool, is_finished, 0))
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->caller_sleeps = true;
    while (!is_finished(pool, 0))
        pthread_cond_wait(&pool->done, &pool->mutex);
    pool->caller_sleeps = false;
    pthread_mutex_unlock(&pool->mutex);
}

/* The last worker of a round wakes the caller. */
static void finish_round(qsa_threads *pool)
{
    if (atomic_fetch_sub_explicit(&pool->running, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&pool->mutex);
    if (pool->caller_sleeps)
        pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

/* Under the mutex, so that no worker goes to sleep between its last look and its wait. */
static void hand_out_round(qsa_threads *pool)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_release);
    if (pool->sleeping > 0)
        pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- working ---- */

static void *worker_main(void *argument)
{
    const pool_worker *worker = argument;
    qsa_threads *pool = worker->pool;
    fesetenv(FE_DFL_ENV); /* not the one inherited from the creator */
    for (uint64_t seen = 0;; seen++) {
        await_round(pool, seen);
        if (pool->stop)
            return NULL;
        pool->work(pool->context, worker->part, pool->count);
        finish_round(pool);
    }
}

static void run(qsa_threads *pool, qsa_thread_work *work, void *context)
{
    assert(atomic_load(&pool->running) == 0);
    pool->work = work;
    pool->context = context;
    atomic_store_explicit(&pool->running, pool->count - 1, memory_order_relaxed);
    if (pool->count > 1)
        hand_out_round(pool);
    work(context, 0, pool->count);
    if (pool->count > 1)
        await_workers(pool);
}

qsa_status qsa_threads_run(qsa_threads *pool, qsa_thread_work *work, void *context)
{
    if (pool == NULL || work == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "threads: %s is NULL", pool == NULL ? "the pool" : "work");
    const qsa_float_env saved = qsa_float_env_enter();
    run(pool, work, context);
    qsa_float_env_leave(saved);
    return QSA_OK;
}

/* ---- life ---- */

static void stop_workers(qsa_threads *pool, uint32_t started)
{
    assert(started < pool->count);
    pool->stop = true;
    hand_out_round(pool);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

static void free_pool(qsa_threads *pool)
{
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->begun);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

qsa_status qsa_threads_create(uint32_t threads, qsa_threads **out_threads)
{
    if (out_threads == NULL || threads == 0 || threads > QSA_MAX_PARTS)
        return qsa_fail(QSA_E_ARGUMENT, "threads: %" PRIu32 " is not 1 .. %d", threads, QSA_MAX_PARTS);
    const size_t bytes = sizeof(qsa_threads) + (threads - 1) * sizeof(pool_worker);
    qsa_threads *pool = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (pool == NULL)
        return qsa_fail(QSA_E_MEMORY, "threads: no memory for a pool of %" PRIu32, threads);
    *pool = (qsa_threads){.count = threads, .watch_ns = threads <= sysconf(_SC_NPROCESSORS_ONLN) ? WATCH_NS : 0};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (uint32_t i = 0; i + 1 < threads; i++) {
        pool->workers[i] = (pool_worker){.pool = pool, .part = i + 1};
        if (pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i]) != 0) {
            stop_workers(pool, i);
            free_pool(pool);
            return qsa_fail(QSA_E_IO, "threads: the system started %" PRIu32 " of %" PRIu32, i + 1, threads);
        }
    }
    *out_threads = pool;
    return QSA_OK;
}

void qsa_threads_destroy(qsa_threads *pool)
{
    if (pool == NULL)
        return;
    stop_workers(pool, pool->count - 1);
    free_pool(pool);
}

uint32_t qsa_threads_count(const qsa_threads *pool)
{
    return pool == NULL ? 0 : pool->count;
}

/* ---- a layer ---- */

typedef struct layer_phase {
    qsa_step *step;
    uint32_t phase;
    qsa_status status; /* of part 0; a part's error is sticky in the step, so that every later phase fails */
} layer_phase;

static void run_part(void *context, uint32_t part, uint32_t parts)
{
    layer_phase *now = context;
    const qsa_status status = qsa_layer_phase(now->step, now->phase, part, parts);
    if (part == 0)
        now->status = status;
}

qsa_status qsa_threads_layer(qsa_threads *pool, qsa_step *step, uint32_t layer, const qsa_tensors *tensors,
                             const qsa_output *out)
{
    if (pool == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "threads: the pool is NULL");
    QSA_TRY(qsa_layer_begin(step, layer, tensors, out));
    layer_phase now = {.step = step};
    for (now.phase = 0; now.phase < QSA_PHASES; now.phase++)
        run(pool, run_part, &now);
    return now.status;
}
