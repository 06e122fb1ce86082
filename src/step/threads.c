/* SPDX-License-Identifier: Apache-2.0 */
/* qsa_threads: a thread pool that runs the parts of one layer. A layer has a few phases with a barrier after each. A
 * thread that waits first polls for watch_ns, yielding its processor, and then sleeps on a condition variable: the next
 * phase nearly always comes at once, and waking a sleeping thread takes as long as a small phase. A pool with more
 * threads than processors does not poll. No bit of a result depends on which thread runs a part. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, sysconf */
#include "base/memory.h"
#include "base/status.h"

#include <assert.h>
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

enum { WATCH_NS = 50000 };

struct qsa_threads {
    uint32_t count;             /* parts: the workers and the caller */
    int64_t watch_ns;           /* how long to poll before sleeping */
    atomic_uint_fast64_t round; /* counts phases handed out; a worker runs each once. The last one means stop */
    atomic_uint running;        /* workers that have not finished the round */
    pthread_mutex_t mutex;      /* guards sleeping and waking */
    pthread_cond_t work, done;
    uint32_t sleeping; /* workers that wait for `work` */
    bool caller_sleeps;
    bool stop; /* these three belong to a round: written before it starts */
    qsa_step *step;
    uint32_t phase;
    pool_worker workers[]; /* [count - 1] */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits for a round after `seen` and returns it. */
static uint64_t await_round(qsa_threads *pool, uint64_t seen)
{
    uint64_t round;
    const int64_t until = now_ns() + pool->watch_ns;
    while ((round = atomic_load_explicit(&pool->round, memory_order_acquire)) == seen && now_ns() < until)
        sched_yield();
    if (round != seen)
        return round;
    pthread_mutex_lock(&pool->mutex);
    pool->sleeping++;
    while ((round = atomic_load_explicit(&pool->round, memory_order_acquire)) == seen)
        pthread_cond_wait(&pool->work, &pool->mutex);
    pool->sleeping--;
    pthread_mutex_unlock(&pool->mutex);
    return round;
}

/* Waits until no worker runs. */
static void await_workers(qsa_threads *pool)
{
    const int64_t until = now_ns() + pool->watch_ns;
    while (atomic_load_explicit(&pool->running, memory_order_acquire) > 0 && now_ns() < until)
        sched_yield();
    if (atomic_load_explicit(&pool->running, memory_order_acquire) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->caller_sleeps = true;
    while (atomic_load_explicit(&pool->running, memory_order_acquire) > 0)
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
        pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument)
{
    pool_worker *worker = argument;
    qsa_threads *pool = worker->pool;
    uint64_t seen = 0;
    for (;;) {
        seen = await_round(pool, seen);
        if (pool->stop)
            return NULL;
        (void)qsa_layer_phase(pool->step, pool->phase, worker->part, pool->count); /* the error is sticky in the step */
        finish_round(pool);
    }
}

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
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

qsa_status qsa_threads_create(uint32_t threads, qsa_threads **out_threads)
{
    if (out_threads == NULL || threads == 0 || threads > QSA_MAX_PARTS)
        return qsa_fail(QSA_E_ARGUMENT, "threads: %" PRIu32 " is not 1 .. %d", threads, QSA_MAX_PARTS);
    qsa_threads *pool = calloc(1, sizeof *pool + (threads - 1) * sizeof(pool_worker));
    if (pool == NULL)
        return qsa_fail(QSA_E_MEMORY, "threads: no memory for a pool of %" PRIu32, threads);
    pool->count = threads;
    pool->watch_ns = threads <= sysconf(_SC_NPROCESSORS_ONLN) ? WATCH_NS : 0;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (uint32_t i = 0; i + 1 < threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].part = i + 1;
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

static qsa_status run_phase(qsa_threads *pool, qsa_step *step, uint32_t phase)
{
    assert(phase < QSA_PHASES && atomic_load(&pool->running) == 0);
    pool->step = step;
    pool->phase = phase;
    atomic_store_explicit(&pool->running, pool->count - 1, memory_order_relaxed);
    hand_out_round(pool);
    const qsa_status status = qsa_layer_phase(step, phase, 0, pool->count);
    await_workers(pool);
    return status;
}

qsa_status qsa_threads_layer(qsa_threads *pool, qsa_step *step, uint32_t layer, const qsa_tensors *tensors,
                             const qsa_output *out)
{
    if (pool == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "threads: the pool is NULL");
    QSA_TRY(qsa_layer_begin(step, layer, tensors, out));
    qsa_status status = QSA_OK;
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
        status = run_phase(pool, step, phase);
    return status;
}
