/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at best: reading memory, and fused multiply-adds from registers. */
#ifndef PROBE_H
#define PROBE_H

#include <stddef.h>
#include <stdint.h>

/* Memory that is read from end to end; larger than the caches, so that a pass also empties them of anything else. */
typedef struct probe {
    uint32_t threads;
    uint64_t *words;
    size_t count; /* a multiple of 8 */
} probe;

void probe_open(probe *p, uint32_t threads, size_t size_bytes);
void probe_close(probe *p);

/* Seconds of one pass on all threads. */
double probe_read(const probe *p);

/* Multiply-adds of f32 per second on `threads` threads; 0 where this program knows no way to measure it. */
double probe_fma_rate(uint32_t threads);

#endif
