/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at best: reading memory, and fused multiply-adds from registers. */
#ifndef QSA_BENCH_PROBE_H
#define QSA_BENCH_PROBE_H

#include "bench/crew.h"

#include <stddef.h>
#include <stdint.h>

typedef enum probe_kind {
    PROBE_READ = 0, /* bytes per second */
    PROBE_FMA       /* floating point operations per second, two for each multiply-add of f32 */
} probe_kind;

typedef struct probe {
    uint64_t *words; /* larger than the caches, so that a probe also empties them of anything else */
    size_t count;    /* of the words */
    crew_work *fma;  /* of the instruction set that is measured; NULL: no way is known here */
    uint32_t lanes;
} probe;

/* isa: as qsa_cache_isa() gives it. */
void probe_open(probe *p, const char *isa);
void probe_close(probe *p);

/* The rate of all threads of the crew together, the best of three passes of some milliseconds; 0: no way known. Reading
 * goes over all of the memory, each pass over a third. */
double probe_rate(const probe *p, probe_kind kind, crew *threads);

#endif
