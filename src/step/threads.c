/* SPDX-License-Identifier: Apache-2.0 */
/* qsa_threads: a pool that runs the parts of one layer. Workers sleep on a condition while idle; between phases they meet
 * at a barrier of the same kind. One mutex guards all of it: a layer has a handful of phases, so it is never contended
 * for long, and no bit of a result depends on who runs which part. */
#include "base/memory.h"
#include "base/status.h"

#include <inttypes.h>
#include <pthread.h>
#include <qsa/threads.h>
#include <stdlib.h>

typedef struct pool_worker {
    qsa_threads *pool;
    uint32_t part;
    pthread_t thread;
} pool_worker;

struct qsa_threads {
    uint32_t count; /* parts: the workers and the caller */
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    uint64_t round; /* counts phases handed out; a worker runs each once */
    uint32_t running;
    bool stop;
    qsa_step *step;
    uint32_t phase;
    pool_worker workers[]; /* [count - 1] */
};

static void *worker_main(void *argument)
{
    pool_worker *worker = argument;
    qsa_threads *pool = worker->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->stop && pool->round == seen)
            pthread_cond_wait(&pool->work, &pool->mutex);
        if (pool->stop)
            break;
        seen = pool->round;
        pthread_mutex_unlock(&pool->mutex);
        (void)qsa_layer_phase(pool->step, pool->phase, worker->part, pool->count); /* the error is sticky in the step */
        pthread_mutex_lock(&pool->mutex);
        if (--pool->running == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static void stop_workers(qsa_threads *pool, uint32_t started)
{
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
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
    pthread_mutex_lock(&pool->mutex);
    pool->step = step;
    pool->phase = phase;
    pool->running = pool->count - 1;
    pool->round++;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    qsa_status status = qsa_layer_phase(step, phase, 0, pool->count);
    pthread_mutex_lock(&pool->mutex);
    while (pool->running > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
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
