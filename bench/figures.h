/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as they are printed: a table, or one JSON object per line. */
#ifndef QSA_BENCH_FIGURES_H
#define QSA_BENCH_FIGURES_H

#include "bench/blocks.h"

/* What all figures of a run share. */
typedef struct bench_printer {
    bool is_json;
    uint32_t threads;
    const char *isa, *kv, *device;
} bench_printer;

/* NAN: not known, or too few blocks. */
typedef struct bench_figure {
    char name[48];
    const char *unit;
    double value, least, most;
    double ratio; /* share of peak: the least time the machine needs / the time it took */
    double probe; /* the peak, in probe_unit */
    const char *probe_unit;
    double share;           /* of a whole that it is a part of */
    uint32_t kept, dropped; /* blocks; 0 and 0: not measured in blocks */
    uint64_t hash;          /* of the output; 0: none */
    const char *note;       /* NULL: none */
} bench_figure;

/* A measure of an item, times `scale`, with the item's share of peak and its peak. */
bench_figure bench_figure_of(const bench_item *item, bench_measure *of, double scale, const char *unit);

/* A value alone. */
bench_figure bench_figure_plain(const char *name, double value, const char *unit, const char *note);

/* Of the table: title, what "share of peak" means here, and the names of the columns. */
void bench_print_head(const bench_printer *p, const char *title, const char *share_of_peak);
void bench_print(const bench_printer *p, const bench_figure *f);

#endif
