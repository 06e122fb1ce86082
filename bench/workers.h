/* SPDX-License-Identifier: Apache-2.0 */
/* The same work on several threads at once, for what libqsa's thread pool does not run: the probes, and the phases of a
 * layer one by one. */
#ifndef QSA_BENCH_WORKERS_H
#define QSA_BENCH_WORKERS_H

#include <stdatomic.h>
#include <stdint.h>

typedef void worker_work(void *context, uint32_t worker, uint32_t workers);

/* Runs work(context, w, workers) for each w in [0, workers); the caller is worker 0, the others are started for it.
 * Returns the seconds from the moment when all are there until the last has finished. A thread that the system does not
 * start ends the command with a message. */
double workers_run(uint32_t workers, worker_work *work, void *context);

/* A spinning barrier, for phases too short to sleep between. Zeroed but for `workers`. */
typedef struct worker_barrier {
    uint32_t workers;
    atomic_uint arrived, round;
} worker_barrier;

void worker_barrier_wait(worker_barrier *b);

#endif
