/* SPDX-License-Identifier: Apache-2.0 */
/* How things are measured: in rounds, a block of each thing in turn, every block between two probes of the machine. A
 * block around which the probe moved by more than a tenth is dropped, and counted: somebody else was at work. */
#ifndef QSA_BENCH_BLOCKS_H
#define QSA_BENCH_BLOCKS_H

#include "bench/probe.h"

enum {
    BENCH_MAX_BLOCKS = 64,
    BENCH_MIN_BLOCKS = 3, /* from fewer no figure is made */
    BENCH_SPLITS = 16     /* what a block can be taken apart into */
};

/* Of one block. */
typedef struct bench_sample {
    double seconds;
    double splits[BENCH_SPLITS]; /* seconds of its phases or parts, where they were told apart */
    double fastest, slowest;     /* seconds of its layers */
    double rate;                 /* of the probe, the mean of before and after */
    bool is_kept;
} bench_sample;

/* One of the things that are measured. */
typedef struct bench_item {
    probe_kind kind; /* what limits it */
    crew *crew;      /* of the probe: as many threads as the item runs on */
    uint32_t depth;  /* tokens stored before it */
    double work;     /* bytes or floating point operations of a block that cannot be spared; 0: not known */

    /* Runs a block and fills in the sample, except rate and is_kept. False ends everything, after saying why. */
    bool (*run)(struct bench_item *item, bench_sample *out);
    void *owner;          /* of run */
    const void *reporter; /* of what makes figures of it */
    uint64_t hash;        /* of what the block computed; every block must give the same */

    uint32_t blocks;
    bench_sample samples[BENCH_MAX_BLOCKS];
} bench_item;

/* Rounds over all items for about that many seconds, and half as long again while one of them has too few blocks that
 * were kept; BENCH_MIN_BLOCKS at least. */
bool bench_rounds(const probe *p, bench_item *items, size_t n, double seconds);

typedef struct bench_statistic {
    double median, least, most; /* NAN where too few blocks were kept, or what is asked is not known */
    uint32_t kept, dropped;
} bench_statistic;

/* Of what `of` says of each kept block; NAN from it: not known. */
typedef double bench_measure(const bench_item *item, const bench_sample *sample);
bench_statistic bench_statistics(const bench_item *item, bench_measure *of);

/* Of the quotients of two items, round by round, where both were kept. */
bench_statistic bench_quotients(const bench_item *above, const bench_item *below, bench_measure *of);

double bench_seconds(const bench_item *item, const bench_sample *sample);
double bench_rate(const bench_item *item, const bench_sample *sample);  /* of the probe */
double bench_share(const bench_item *item, const bench_sample *sample); /* seconds at the probe's rate / seconds */

#endif
