/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the benchmark's own, for what is measured beside the library's pool: the probes, and the phases of a layer
 * one by one. */
#ifndef QSA_BENCH_CREW_H
#define QSA_BENCH_CREW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct crew crew;

typedef void crew_work(void *context, uint32_t part, uint32_t parts);

/* The caller and threads - 1 others. NULL after saying that the system starts no more. */
crew *crew_new(uint32_t threads);
void crew_free(crew *c); /* NULL is legal */
uint32_t crew_threads(const crew *c);

/* All parts at once, one on each thread; returns when the last is done. */
void crew_run(crew *c, crew_work *work, void *context);

/* Awake, the threads wait for the next work without sleeping, so that waking costs it nothing. They begin asleep. */
void crew_stay_awake(crew *c, bool is_awake);

#endif
