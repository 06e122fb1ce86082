/* SPDX-License-Identifier: Apache-2.0 */
/* How things are measured: in rounds, one block of each item after the other, the machine's peak probed before and
 * after every block. A block whose two probes differ by more than 10 % is dropped, and counted: the machine was
 * disturbed. */
#ifndef QSA_BENCH_BLOCKS_H
#define QSA_BENCH_BLOCKS_H

#include "bench/probes.h"

#include <stdbool.h>

enum {
    BENCH_MAX_BLOCKS = 64,
    BENCH_MIN_BLOCKS = 3, /* fewer make no figure */
    BENCH_SPLITS = 16     /* phases of a layer, or parts of a model */
};

/* One block. */
typedef struct bench_sample {
    double seconds;
    double splits[BENCH_SPLITS]; /* seconds of its phases or parts, where they are timed */
    double fastest, slowest;     /* seconds of its layers */
    double rate;                 /* of the probe: the mean of before and after */
    bool is_kept;
} bench_sample;

/* What is measured. */
typedef struct bench_item {
    probe_kind kind;  /* what limits it */
    uint32_t threads; /* that it runs on, and its probes */
    uint32_t depth;   /* tokens in the cache before it */
    double work;      /* bytes or floating point operations that a block needs at least; 0: not known */

    /* Runs a block and fills in the sample, except rate and is_kept. False ends the command, after saying why. */
    bool (*run)(struct bench_item *item, bench_sample *out);
    void *owner;          /* for run */
    const void *reporter; /* for measures */
    uint64_t hash;        /* of a block's output; the same in every block */

    uint32_t blocks;
    bench_sample samples[BENCH_MAX_BLOCKS];
} bench_item;

/* Rounds over all items for about that many seconds, half as long again while an item has too few kept blocks; at
 * least BENCH_MIN_BLOCKS rounds. */
bool bench_rounds(const probe *p, bench_item *items, size_t n, double seconds);

typedef struct bench_statistic {
    double median, least, most; /* NAN: too few kept blocks, or the measure is not known */
    uint32_t kept, dropped;
} bench_statistic;

/* A number of a block; NAN: not known. */
typedef double bench_measure(const bench_item *item, const bench_sample *sample);

/* Over the kept blocks. */
bench_statistic bench_statistics(const bench_item *item, bench_measure *of);

/* Of the quotients of two items in the same round, where both were kept. */
bench_statistic bench_quotients(const bench_item *above, const bench_item *below, bench_measure *of);

double bench_seconds(const bench_item *item, const bench_sample *sample);
double bench_rate(const bench_item *item, const bench_sample *sample);          /* of the probe */
double bench_share_of_peak(const bench_item *item, const bench_sample *sample); /* seconds at the peak / seconds */

#endif
