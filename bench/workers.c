/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/workers.h"

#include "bench/status.h"
#include "console/clock.h"

#include <stdlib.h>

static void arrive(void *unused, uint32_t worker, uint32_t workers)
{
    (void)unused, (void)worker, (void)workers;
}

double workers_run(uint32_t workers, qsa_thread_work *work, void *context)
{
    qsa_threads *pool;
    if (!bench_ok(qsa_threads_create(workers, &pool)))
        exit(EXIT_FAILURE);
    (void)qsa_threads_run(pool, arrive, NULL);
    const double begin = clock_seconds();
    (void)qsa_threads_run(pool, work, context);
    const double seconds = clock_seconds() - begin;
    qsa_threads_destroy(pool);
    return seconds;
}
