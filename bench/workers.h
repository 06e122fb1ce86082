/* SPDX-License-Identifier: Apache-2.0 */
/* The same work on several threads at once, timed. */
#ifndef QSA_BENCH_WORKERS_H
#define QSA_BENCH_WORKERS_H

#include <qsa/threads.h>

/* Runs work(context, w, workers) for each w in [0, workers) on a pool made for it. Returns the seconds from the moment
 * when all threads are there until the last has finished. A thread that the system does not start ends the command with
 * a message. */
double workers_run(uint32_t workers, qsa_thread_work *work, void *context);

#endif
