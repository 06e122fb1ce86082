/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "bench/cases.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_CALLS = 9, MAX_CALLS = 4096 };
static const double SECONDS = 0.2; /* of a case */

/* Seconds that this thread has run. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- life ---- */

void bench_cases_open(bench_cases *cases, bool is_json, const char *title)
{
    *cases = (bench_cases){.printer = {.is_json = is_json, .threads = 1, .isa = "", .device = "host"}};
    probe_open(&cases->probe, "");
    cases->read_rate = probe_rate(&cases->probe, PROBE_READ, PROBE_THIS_THREAD);
    bench_print_head(&cases->printer, title,
                     "share of peak: the longer of reading from memory and of the FMAs at the peak / median");
}

void bench_cases_close(bench_cases *cases)
{
    probe_close(&cases->probe);
}

/* ---- a case ---- */

static void choose_isa(bench_cases *cases, const char *isa)
{
    if (strcmp(cases->printer.isa, isa) == 0)
        return;
    cases->printer.isa = isa;
    probe_choose_isa(&cases->probe, isa);
    cases->fma_rate = probe_rate(&cases->probe, PROBE_FMA, PROBE_THIS_THREAD);
}

static double call(const bench_case *one)
{
    if (one->before)
        one->before(one->context);
    const double begin = thread_seconds();
    one->run(one->context);
    return thread_seconds() - begin;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Fills in the times of a case, in microseconds. */
static void time_case(const bench_case *one, bench_figure *f)
{
    static double seconds[MAX_CALLS];
    size_t n = 0;
    (void)call(one); /* brings code and what is hot into the caches */
    for (double sum = 0; n < MAX_CALLS && (n < MIN_CALLS || sum < SECONDS); n++)
        sum += seconds[n] = call(one);
    qsort(seconds, n, sizeof *seconds, by_size);
    f->value = 1e6 * seconds[n / 2];
    f->least = 1e6 * seconds[0];
    f->most = 1e6 * seconds[n - 1];
}

/* The peak that limits a case, if one is known. */
static void compare_with_peak(const bench_cases *cases, const bench_case *one, bench_figure *f)
{
    const double reading = one->bytes / cases->read_rate;
    const double computing = cases->fma_rate > 0 ? one->operations / cases->fma_rate : 0;
    const probe_kind kind = reading > computing ? PROBE_READ : PROBE_FMA;
    if (reading <= 0 && computing <= 0)
        return;
    f->ratio = 1e6 * fmax(reading, computing) / f->value;
    f->probe = (kind == PROBE_READ ? cases->read_rate : cases->fma_rate) / 1e9;
    f->probe_unit = probe_unit(kind);
}

void bench_cases_run(bench_cases *cases, const bench_case *one)
{
    assert(one->name && one->type && one->isa && one->run);
    bench_figure f = bench_figure_plain("", 0, "us", NULL);
    choose_isa(cases, one->isa);
    cases->printer.kv = one->type;
    snprintf(f.name, sizeof f.name, "%s_%s_%s", one->name, one->type, one->isa);
    time_case(one, &f);
    compare_with_peak(cases, one, &f);
    bench_print(&cases->printer, &f);
}
