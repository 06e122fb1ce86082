/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/blocks.h"

#include "console/clock.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- running ---- */

static const double MAX_CHANGE = 0.1; /* of the probe's rate */
static const double PATIENCE = 1.5;   /* times the seconds, while an item has too few kept blocks */

/* The probe after a block is also the one before the next, if kind and threads are the same. */
typedef struct probed {
    probe_kind kind;
    uint32_t threads; /* 0: none yet */
    double rate;
} probed;

static double rate_before(const probe *p, const bench_item *item, const probed *last)
{
    const bool is_same = last->threads == item->threads && last->kind == item->kind;
    return is_same ? last->rate : probe_rate(p, item->kind, item->threads);
}

static bool run_block(const probe *p, bench_item *item, probed *last)
{
    assert(item->threads > 0 && item->blocks < BENCH_MAX_BLOCKS);
    bench_sample *s = &item->samples[item->blocks++];
    const double before = rate_before(p, item, last);
    if (!item->run(item, s))
        return false;
    const double after = probe_rate(p, item->kind, item->threads);
    s->rate = (before + after) / 2;
    s->is_kept = fabs(after - before) <= MAX_CHANGE * fmax(before, after);
    *last = (probed){item->kind, item->threads, after};
    return true;
}

static bool has_enough(const bench_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bench_statistics(&items[i], bench_seconds).kept < BENCH_MIN_BLOCKS)
            return false;
    return true;
}

bool bench_rounds(const probe *p, bench_item *items, size_t n, double seconds)
{
    const double begin = clock_seconds();
    probed last = {0};
    for (uint32_t round = 0; round < BENCH_MAX_BLOCKS; round++) {
        const double elapsed = clock_seconds() - begin, allowed = has_enough(items, n) ? seconds : PATIENCE * seconds;
        if (round >= BENCH_MIN_BLOCKS && elapsed + elapsed / round > allowed)
            break;
        for (size_t i = 0; i < n; i++)
            if (!run_block(p, &items[i], &last))
                return false;
    }
    return true;
}

/* ---- statistics ---- */

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Of n values, of `blocks` blocks that were run. */
static bench_statistic statistic(double *values, uint32_t n, uint32_t blocks)
{
    bench_statistic s = {NAN, NAN, NAN, n, blocks - n};
    for (uint32_t i = 0; i < n; i++)
        if (isnan(values[i]))
            return s;
    if (n < BENCH_MIN_BLOCKS)
        return s;
    qsort(values, n, sizeof *values, by_size);
    s.median = (values[(n - 1) / 2] + values[n / 2]) / 2;
    s.least = values[0];
    s.most = values[n - 1];
    return s;
}

bench_statistic bench_statistics(const bench_item *item, bench_measure *of)
{
    double values[BENCH_MAX_BLOCKS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < item->blocks; i++)
        if (item->samples[i].is_kept)
            values[n++] = of(item, &item->samples[i]);
    return statistic(values, n, item->blocks);
}

bench_statistic bench_quotients(const bench_item *above, const bench_item *below, bench_measure *of)
{
    double values[BENCH_MAX_BLOCKS];
    uint32_t n = 0;
    const uint32_t blocks = above->blocks < below->blocks ? above->blocks : below->blocks;
    for (uint32_t i = 0; i < blocks; i++)
        if (above->samples[i].is_kept && below->samples[i].is_kept)
            values[n++] = of(above, &above->samples[i]) / of(below, &below->samples[i]);
    return statistic(values, n, blocks);
}

double bench_seconds(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->seconds;
}

double bench_rate(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->rate > 0 ? sample->rate : NAN;
}

double bench_share_of_peak(const bench_item *item, const bench_sample *sample)
{
    const bool is_known = item->work > 0 && sample->rate > 0;
    return is_known ? item->work / sample->rate / sample->seconds : NAN;
}
