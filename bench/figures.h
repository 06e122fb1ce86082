/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as they are printed: a table, or an object of JSON per line. */
#ifndef QSA_BENCH_FIGURES_H
#define QSA_BENCH_FIGURES_H

#include "bench/blocks.h"

/* What holds for all figures of a run. */
typedef struct bench_printer {
    bool is_json;
    uint32_t threads;
    const char *isa, *kv, *device;
} bench_printer;

typedef enum bench_target { BENCH_NO_TARGET = 0, BENCH_AT_LEAST, BENCH_AT_MOST } bench_target;

/* NAN: not known, or too few blocks to know. */
typedef struct bench_figure {
    char name[48];
    const char *unit;
    double value, least, most;
    double ratio; /* of the best that the machine can do to ours; 1: nothing can be faster */
    double probe; /* what it can do, in probe_unit */
    const char *probe_unit;
    double share;           /* of the whole that it is a part of */
    uint32_t kept, dropped; /* blocks; 0 and 0: not measured in blocks */
    bench_target target;    /* of the ratio, or of the value where there is no ratio */
    double limit;
    uint64_t hash; /* 0: none */
    const char *note;
} bench_figure;

/* The item's `of` times `scale`, with its ratio and its probe. */
bench_figure bench_figure_of(const bench_item *item, bench_measure *of, double scale, const char *unit);

/* A figure that is no measurement in blocks. */
bench_figure bench_figure_plain(const char *name, double value, const char *unit, const char *note);

void bench_print_head(const bench_printer *p, const char *title);
void bench_print(const bench_printer *p, const bench_figure *f);

#endif
