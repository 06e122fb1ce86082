/* SPDX-License-Identifier: Apache-2.0 */
/* QSA layers of the released shape: the figures. */
#include "bench/runs.h"
#include "console/clock.h"
#include "console/memory.h"
#include "console/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEEPEST = 262144,   /* where the targets of decode are */
    SPLIT_DEPTH = 32768 /* where prompts on one thread are compared with several, if it is a depth at all */
};

typedef struct layers {
    const bench_request *r;
    bench_runs runs;
    qsa_threads *pool, *single; /* of as many threads as asked for, and of one */
    crew *crew, *alone;         /* likewise */
    probe probe;
    bench_printer printer;
    bench_item *decode[BENCH_MAX_DEPTHS], *prefill[BENCH_MAX_DEPTHS];
    bench_item *phases;                         /* decode at the last depth, phase by phase */
    bench_item *decode_alone, *prefill_alone;   /* on one thread; NULL if that is what all run on */
    bench_item *decode_beside, *prefill_beside; /* what they are compared with */
} layers;

/* ---- opening ---- */

static bool open_layers(layers *l, const bench_request *r)
{
    *l = (layers){.r = r};
    l->printer = (bench_printer){r->json, r->threads, NULL, bench_kv_names[r->kv], r->device ? r->device : "host"};
    l->crew = crew_new(r->threads);
    l->alone = crew_new(1);
    if (!l->crew || !l->alone || !bench_runs_open(&l->runs, r))
        return false;
    l->printer.isa = qsa_cache_isa(l->runs.state.cache);
    probe_open(&l->probe, l->printer.isa);
    return bench_good(qsa_threads_create(r->threads, &l->pool)) && bench_good(qsa_threads_create(1, &l->single));
}

static void close_layers(layers *l)
{
    qsa_threads_destroy(l->pool);
    qsa_threads_destroy(l->single);
    crew_free(l->crew);
    crew_free(l->alone);
    probe_close(&l->probe);
    bench_runs_close(&l->runs);
}

static size_t split_index(const bench_request *r)
{
    for (size_t i = 0; i < r->n_depths; i++)
        if (r->depths[i] == SPLIT_DEPTH)
            return i;
    return r->n_depths - 1;
}

static void add_items(layers *l)
{
    const size_t last = l->r->n_depths - 1, split = split_index(l->r);
    for (size_t i = 0; i <= last; i++)
        l->decode[i] = bench_runs_add(&l->runs, l->r->depths[i], 1, l->pool, l->crew);
    l->decode_beside = l->decode[last];
    l->phases = bench_runs_add(&l->runs, l->r->depths[last], 1, NULL, l->crew);
    if (l->r->threads > 1)
        l->decode_alone = bench_runs_add(&l->runs, l->r->depths[last], 1, l->single, l->alone);
    for (size_t i = 0; i <= last; i++) {
        l->prefill[i] = bench_runs_add(&l->runs, l->r->depths[i], BENCH_CHUNK, l->pool, l->crew);
        if (i == split && l->r->threads > 1)
            l->prefill_alone = bench_runs_add(&l->runs, l->r->depths[i], BENCH_CHUNK, l->single, l->alone);
    }
    l->prefill_beside = l->prefill[split];
}

/* ---- figures that are not taken in blocks ---- */

static void print(const layers *l, const bench_figure *f)
{
    bench_print(&l->printer, f);
}

static void print_plain(const layers *l, const char *name, double value, const char *unit, const char *note)
{
    const bench_figure f = bench_figure_plain(name, value, unit, note);
    print(l, &f);
}

static bool print_memory(const layers *l)
{
    const uint64_t resident = bench_resident_bytes();
    const double planned = (double)l->runs.state.plan.total_bytes;
    qsa_config config = l->runs.state.config;
    qsa_memory_plan plan;
    config.layers = 12;
    config.capacity_tokens = 262144;
    config.max_step_tokens = 2048;
    if (!bench_good(qsa_plan_memory(&config, &plan)))
        return false;
    print_plain(l, "memory_planned", planned / 1048576, "MiB", "by qsa_plan_memory, for the cache");
    print_plain(l, "memory_resident", resident ? (double)resident / 1048576 : NAN, "MiB",
                "of the process: cache, inputs, outputs, the probe's memory");
    bench_figure scratch = bench_figure_plain("scratch", (double)plan.scratch_bytes / 1048576, "MiB",
                                              "working memory at 262,144 tokens and 2,048 queries");
    scratch.target = BENCH_AT_MOST;
    scratch.limit = 64;
    print(l, &scratch);
    print_plain(l, "bytes_per_token", (double)plan.bytes_per_token, "bytes", "K/V and index of 12 layers");
    return true;
}

static bool fill(layers *l)
{
    const uint32_t tokens = l->r->depths[l->r->n_depths - 1];
    const double begin = clock_seconds();
    if (!bench_state_fill(&l->runs.state, l->pool, tokens))
        return false;
    if (tokens > 0)
        print_plain(l, "store", (clock_seconds() - begin) / tokens * 1e6, "us/token",
                    "all layers, stored and pooled without output");
    return true;
}

static bool print_allocations(const layers *l)
{
    uint64_t calls;
    if (!bench_count_allocations(l->r, &calls))
        return false;
    bench_figure f =
        bench_figure_plain("warm_allocations", (double)calls, "calls", "of the allocator in eight warm steps");
    f.target = BENCH_AT_MOST;
    print(l, &f);
    return true;
}

/* ---- figures by depth ---- */

static double fastest(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->fastest;
}

static double slowest(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->slowest;
}

static double mean_layer(const bench_item *item, const bench_sample *sample)
{
    return sample->seconds / bench_runs_layers(item);
}

/* Nothing to read or to choose from yet: a limit of nothing says nothing. */
static bool has_limit(const bench_item *item)
{
    return item->work > 0 && (item->depth > 0 || item->kind == PROBE_FMA);
}

static void print_depth(const layers *l, const bench_item *item, const char *what, double scale, const char *unit)
{
    const double all_layers = (double)l->r->layers / bench_runs_layers(item);
    bench_figure f = bench_figure_of(item, bench_seconds, scale * all_layers, unit);
    if (!has_limit(item))
        f.ratio = NAN;
    snprintf(f.name, sizeof f.name, "%s_%" PRIu32, what, item->depth);
    print(l, &f);
    f = bench_figure_of(item, mean_layer, scale, unit);
    f.least = bench_statistics(item, fastest).least * scale;
    f.most = bench_statistics(item, slowest).most * scale;
    f.ratio = NAN;
    f.hash = 0;
    snprintf(f.name, sizeof f.name, "%s_layer_%" PRIu32, what, item->depth);
    print(l, &f);
}

static void print_depths(const layers *l)
{
    for (size_t i = 0; i < l->r->n_depths; i++)
        print_depth(l, l->decode[i], "decode", 1e3, "ms");
    for (size_t i = 0; i < l->r->n_depths; i++)
        print_depth(l, l->prefill[i], "prefill", 1e6 / BENCH_CHUNK, "us/token");
}

/* ---- where a step of one token spends its time ---- */

static double appended(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->splits[0];
}

static double scanned(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->splits[1] + sample->splits[2];
}

static double attended(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->splits[3] + sample->splits[4];
}

static void print_phase(const layers *l, const char *name, bench_measure *of)
{
    bench_figure f = bench_figure_of(l->phases, of, 1e3, "ms");
    snprintf(f.name, sizeof f.name, "%s_%" PRIu32, name, l->phases->depth);
    f.ratio = NAN;
    f.hash = 0;
    print(l, &f);
}

static void print_phases(const layers *l)
{
    print_phase(l, "decode_append", appended);
    print_phase(l, "decode_scan", scanned);
    print_phase(l, "decode_row", attended);
}

/* ---- the figures with a target ---- */

/* At the shape and on the threads that the targets are for. */
static bool has_targets(const layers *l)
{
    return l->r->layers == 12 && l->r->threads == 2 && l->r->kv == QSA_KV_BF16 && !l->runs.state.config.device;
}

static double scan_share(const bench_item *item, const bench_sample *sample)
{
    const layers *l = item->reporter;
    const double bytes = bench_scan_bytes(&l->runs.state.config, (uint64_t)item->depth + 1) * l->r->layers;
    return bytes / sample->rate / scanned(item, sample);
}

/* Whatever takes longer, reading the row or its multiply-adds. */
static double row_share(const bench_item *item, const bench_sample *sample)
{
    const layers *l = item->reporter;
    const qsa_config *c = &l->runs.state.config;
    const uint64_t visible = (uint64_t)item->depth + 1;
    const double fma_rate = bench_statistics(l->prefill_beside, bench_rate).median;
    const double reading = bench_row_bytes(c, visible) / sample->rate;
    const double computing = bench_row_operations(c, visible) / fma_rate;
    return fmax(reading, computing) * l->r->layers / attended(item, sample); /* fmax: NAN is no limit */
}

/* A ratio of its own, with the least that is wanted of it. */
static void print_ratio(const layers *l, const char *name, const bench_item *item, bench_measure *of, double wanted)
{
    bench_figure f = bench_figure_of(item, of, 1, "of limit");
    snprintf(f.name, sizeof f.name, "%s", name);
    f.ratio = f.value;
    f.hash = 0;
    f.target = has_targets(l) && wanted > 0 ? BENCH_AT_LEAST : BENCH_NO_TARGET;
    f.limit = wanted;
    print(l, &f);
}

static void print_decode_ratios(const layers *l)
{
    const bench_item *item = l->decode_beside;
    const bool is_deepest = item->depth == DEEPEST;
    char name[48];
    if (!has_limit(item))
        return;
    snprintf(name, sizeof name, "decode_limit_over_time_%" PRIu32, item->depth);
    print_ratio(l, name, item, bench_share, is_deepest ? 0.75 : 0);
    if (bench_scan_bytes(&l->runs.state.config, (uint64_t)item->depth + 1) > 0) {
        snprintf(name, sizeof name, "scan_limit_over_time_%" PRIu32, item->depth);
        print_ratio(l, name, l->phases, scan_share, is_deepest ? 0.85 : 0);
    }
    print_ratio(l, "row_limit_over_time_cold", l->phases, row_share, is_deepest ? 0.5 : 0);
}

static void print_prefill_ratios(const layers *l)
{
    for (size_t i = 0; i < l->r->n_depths && has_limit(l->prefill[i]); i++) {
        const uint32_t depth = l->r->depths[i];
        char name[48];
        snprintf(name, sizeof name, "prefill_share_of_fma_peak_%" PRIu32, depth);
        if (depth == 32768 || depth == 131072)
            print_ratio(l, name, l->prefill[i], bench_share, 0.6);
    }
}

/* ---- one thread and several ---- */

static double seconds_at_rate(const bench_item *item, const bench_sample *sample)
{
    return bench_seconds(item, sample) * bench_rate(item, sample);
}

static void print_threads(const layers *l, const char *what, const bench_item *alone, const bench_item *beside)
{
    if (!alone)
        return;
    const bool is_prefill = beside->kind == PROBE_FMA;
    const bench_statistic s = bench_quotients(alone, beside, bench_seconds);
    bench_figure f =
        bench_figure_plain("", s.median, "times", is_prefill ? "equal hashes" : "the ratio is to that of the probes");
    snprintf(f.name, sizeof f.name, "%s_threads_1_over_%" PRIu32, what, l->r->threads);
    f.least = s.least;
    f.most = s.most;
    f.kept = s.kept;
    f.dropped = s.dropped;
    f.ratio = is_prefill ? s.median : bench_quotients(alone, beside, seconds_at_rate).median;
    f.target = has_targets(l) ? BENCH_AT_LEAST : BENCH_NO_TARGET;
    f.limit = is_prefill ? 1.75 : 0.9;
    print(l, &f);
}

static bool same_output(const bench_item *a, const bench_item *b)
{
    if (!a || a->hash == b->hash)
        return true;
    options_say("bench", "the same step gave %016" PRIx64 " and %016" PRIx64 " on other threads", a->hash, b->hash);
    return false;
}

/* ---- the whole ---- */

static void print_probes(const layers *l)
{
    bench_figure f = bench_figure_of(l->decode_beside, bench_rate, 1e-9, "GB/s");
    snprintf(f.name, sizeof f.name, "read_rate");
    f.ratio = f.probe = NAN;
    f.hash = 0;
    f.note = "reading memory, all threads";
    print(l, &f);
    f = bench_figure_of(l->prefill_beside, bench_rate, 1e-9, "GFLOP/s");
    snprintf(f.name, sizeof f.name, "fma_rate");
    f.ratio = f.probe = NAN;
    f.hash = 0;
    f.note = "multiply-adds from registers, all threads";
    print(l, &f);
}

static double curve_limit(const bench_item *item, double scale)
{
    const bench_statistic rate = bench_statistics(item, bench_rate);
    return has_limit(item) ? item->work / rate.median * scale : NAN;
}

static bool draw(const layers *l)
{
    bench_curves curves;
    char which[64];
    for (size_t i = 0; i < l->r->n_depths; i++) {
        const double us = 1e6 / BENCH_CHUNK * l->r->layers / bench_runs_layers(l->prefill[i]);
        curves.decode[i] = bench_statistics(l->decode[i], bench_seconds).median * 1e3;
        curves.decode_limit[i] = curve_limit(l->decode[i], 1e3);
        curves.prefill[i] = bench_statistics(l->prefill[i], bench_seconds).median * us;
        curves.prefill_limit[i] = curve_limit(l->prefill[i], us);
    }
    snprintf(which, sizeof which, "%" PRIu32 " QSA layers of the released shape", l->r->layers);
    return bench_draw(l->r, l->printer.isa, which, &curves);
}

static void print_head(const layers *l)
{
    char title[160];
    snprintf(title, sizeof title,
             "%" PRIu32 " QSA layers of the released shape, K/V %s, device %s, kernels %s, threads %" PRIu32,
             l->r->layers, l->printer.kv, l->printer.device, l->printer.isa, l->r->threads);
    bench_print_head(&l->printer, title);
}

static bool measure(layers *l)
{
    add_items(l);
    for (size_t i = 0; i < l->runs.n_items; i++)
        l->runs.items[i].reporter = l;
    print_head(l);
    if (!print_allocations(l) || !fill(l) || !print_memory(l) ||
        !bench_rounds(&l->probe, l->runs.items, l->runs.n_items, l->r->seconds))
        return false;
    print_probes(l);
    print_depths(l);
    print_phases(l);
    print_decode_ratios(l);
    print_prefill_ratios(l);
    print_threads(l, "prefill", l->prefill_alone, l->prefill_beside);
    print_threads(l, "decode", l->decode_alone, l->decode_beside);
    return same_output(l->phases, l->decode_beside) && same_output(l->decode_alone, l->decode_beside) &&
           same_output(l->prefill_alone, l->prefill_beside) && (!l->r->svg || draw(l));
}

bool bench_layers(const bench_request *r)
{
    layers l;
    const bool is_good = open_layers(&l, r) && measure(&l);
    close_layers(&l);
    return is_good;
}
