/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's peak: memory bandwidth, and fused multiply-adds from registers. */
#ifndef QSA_BENCH_PROBES_H
#define QSA_BENCH_PROBES_H

#include "bench/workers.h"

#include <stddef.h>
#include <stdint.h>

typedef enum probe_kind {
    PROBE_READ = 0, /* bytes per second, read from memory */
    PROBE_FMA       /* floating point operations per second: two per f32 multiply-add */
} probe_kind;

typedef struct probe {
    uint64_t *words;      /* larger than the last-level cache, so that reading them leaves nothing else in it */
    size_t count;         /* of words */
    qsa_thread_work *fma; /* with the instruction set that is measured; NULL: none is known here */
    uint32_t lanes;       /* f32 values of its vectors */
} probe;

/* isa: as qsa_cache_isa() gives it. */
void probe_open(probe *p, const char *isa);
void probe_choose_isa(probe *p, const char *isa);
void probe_close(probe *p);

/* As a number of threads: the calling thread alone, by its processor time. */
enum { PROBE_THIS_THREAD = 0 };

/* Rate of all threads together, the best of three passes of some milliseconds; 0: not known. The three passes read all
 * of the memory, a third each. */
double probe_rate(const probe *p, probe_kind kind, uint32_t threads);

/* "GB/s", "GFLOP/s": the unit of rates in billions. */
const char *probe_unit(probe_kind kind);

#endif
