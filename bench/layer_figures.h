/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of QSA layers: what is measured for them, and how they are printed. */
#ifndef QSA_BENCH_LAYER_FIGURES_H
#define QSA_BENCH_LAYER_FIGURES_H

#include "bench/curves.h"
#include "bench/figures.h"
#include "bench/steps.h"

typedef struct layer_set {
    const bench_options *options;
    bench_printer printer;
    bench_steps steps;
    bench_item *decode[BENCH_MAX_DEPTHS], *prefill[BENCH_MAX_DEPTHS];
    bench_item *deepest;                      /* decode at the last depth */
    bench_item *phases;                       /* the same, phase by phase */
    bench_item *middle;                       /* the prefill that is also run on one thread */
    bench_item *decode_alone, *prefill_alone; /* deepest and middle on one thread; NULL: that is what all run on */
} layer_set;

/* Title and columns. */
void layer_figures_head(const layer_set *s);

/* Before measuring: memory; one-off measurements. */
void layer_figures_store(const layer_set *s, double seconds); /* of filling the cache to the last depth */
void layer_figures_allocations(const layer_set *s, uint64_t calls);
bool layer_figures_memory(const layer_set *s); /* false after saying what is wrong */

/* After measuring: all that is taken from blocks. */
void layer_figures_blocks(const layer_set *s);

void layer_figures_curves(const layer_set *s, bench_curves *out);

#endif
