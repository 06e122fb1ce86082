/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a forward pass. The caller runs the pass operation by operation; the threads of libqsa's pool, the
 * caller among them, share the units of an operation, and the next operation begins when all are done. No result
 * depends on who runs which unit. */
#ifndef QSA_ENGINE_MODEL_WORKER_POOL_H
#define QSA_ENGINE_MODEL_WORKER_POOL_H

#include <qsa/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct worker_pool worker_pool;

/* Runs units [begin, end) of an operation; context is the same for all tasks of a run. */
typedef void task_function(const void *context, const void *operation, size_t begin, size_t end);

/* Units may run in any order and at the same time; a range of them is split only at multiples of `grain`. */
typedef struct task {
    task_function *run;
    const void *operation;
    size_t units, grain; /* grain: units worth handing to a thread, at least 1 */
} task;

/* `count` threads, including the caller. Errors: QSA_E_MEMORY, QSA_E_IO (the system starts no more threads). */
qsa_status worker_pool_create(uint32_t count, worker_pool **out_pool);
void worker_pool_destroy(worker_pool *w);
uint32_t worker_pool_count(const worker_pool *w);

/* Runs all units of n independent tasks. Grains are handed out in order, in runs that shrink towards the end, so put
 * tasks with expensive units first. One call at a time per pool. */
void worker_pool_run(worker_pool *w, const void *context, const task *tasks, size_t n);

#endif
