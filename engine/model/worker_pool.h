/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool of a forward pass. The caller runs the pass from top to bottom; each operation is cut into units that
 * the workers and the caller share out among themselves, and the next operation begins when all are done. No result
 * depends on who runs which unit.
 *
 * A worker that waits spins for less than a microsecond, then offers its processor to other threads, and after
 * WATCH_NS sleeps: the next operation of a pass is nearly always there sooner, and an idle pool costs nothing. */
#ifndef QSA_ENGINE_MODEL_WORKER_POOL_H
#define QSA_ENGINE_MODEL_WORKER_POOL_H

#include <qsa/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct worker_pool worker_pool;

/* Runs units [begin, end) of an operation; context is the same for all tasks of a run. */
typedef void task_function(const void *context, const void *operation, size_t begin, size_t end);

/* Units may run in any order and at the same time; a run of them is cut only at multiples of `grain`. */
typedef struct task {
    task_function *run;
    const void *operation;
    size_t units, grain; /* grain: what is worth a thread's while, at least 1 */
} task;

/* `count` threads, the caller among them. Errors: QSA_E_MEMORY, QSA_E_IO (the system starts no more threads). */
qsa_status worker_pool_create(uint32_t count, worker_pool **out_pool);
void worker_pool_destroy(worker_pool *w);
uint32_t worker_pool_count(const worker_pool *w);

/* Runs all units of n tasks, which do not depend on each other. Grains are handed out in order, in runs that grow
 * shorter towards the end; so a task whose units are dear comes first. One call at a time per pool. */
void worker_pool_run(worker_pool *w, const void *context, const task *tasks, size_t n);

#endif
