/* SPDX-License-Identifier: Apache-2.0 */
/* A thread pool, for hosts that have none; everything that computes in this project runs on it. */
#ifndef QSA_THREADS_H
#define QSA_THREADS_H

#include <qsa/step.h>

QSA_BEGIN_DECLS

typedef struct qsa_threads qsa_threads;

/* A pool of `threads` threads, 1 .. QSA_MAX_PARTS: the caller and threads - 1 workers, which sleep while idle.
 * Errors: QSA_E_ARGUMENT, QSA_E_MEMORY, QSA_E_IO (a thread could not be started). */
QSA_API qsa_status qsa_threads_create(uint32_t threads, qsa_threads **out_threads);
QSA_API void qsa_threads_destroy(qsa_threads *threads);
QSA_API uint32_t qsa_threads_count(const qsa_threads *threads);

/* Runs work(context, part, parts) for every part in [0, parts), parts being qsa_threads_count: part 0 on the calling
 * thread, which rounds to nearest meanwhile, each other part on a worker of its own, in the default floating point
 * environment. Returns when all have
 * finished; what they wrote is visible then. One call at a time per pool, and none from inside work. Errors:
 * QSA_E_ARGUMENT (a pool or work that is NULL). */
typedef void qsa_thread_work(void *context, uint32_t part, uint32_t parts);
QSA_API qsa_status qsa_threads_run(qsa_threads *threads, qsa_thread_work *work, void *context);

/* qsa_step_layer on the pool, in as many parts as it has threads. One call at a time per pool. */
QSA_API qsa_status qsa_threads_layer(qsa_threads *threads, qsa_step *step, uint32_t layer, const qsa_tensors *tensors,
                                     const qsa_output *out);

QSA_END_DECLS
#endif
