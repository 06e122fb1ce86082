/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/layer_figures.h"

#include "bench/machine.h"
#include "bench/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- printing ---- */

static void print(const layer_set *s, const bench_figure *f)
{
    bench_print(&s->printer, f);
}

static void print_plain(const layer_set *s, const char *name, double value, const char *unit, const char *note)
{
    const bench_figure f = bench_figure_plain(name, value, unit, note);
    print(s, &f);
}

/* A measure without share of peak and hash, which belong to the whole step. */
static bench_figure part_of_step(const bench_item *item, bench_measure *of, double scale, const char *unit)
{
    bench_figure f = bench_figure_of(item, of, scale, unit);
    f.ratio = NAN;
    f.hash = 0;
    return f;
}

/* "decode" at 2048: "decode_2048". */
static void name_by_depth(bench_figure *f, const char *name, uint32_t depth)
{
    snprintf(f->name, sizeof f->name, "%s_%" PRIu32, name, depth);
}

void layer_figures_head(const layer_set *s)
{
    char title[192];
    snprintf(title, sizeof title,
             "%" PRIu32 " QSA layers of Qwen3.8-Flash-Next's shape; %" PRIu32 " threads, K/V %s, device %s, %s kernels",
             s->options->layers, s->options->threads, s->printer.kv, s->printer.device, s->printer.isa);
    bench_print_head(&s->printer, title,
                     "share of peak: decode, time to read pooled keys, K and V at the memory bandwidth / its time; "
                     "prefill, FLOP/s / FMA peak");
}

/* ---- measured once ---- */

void layer_figures_store(const layer_set *s, double seconds)
{
    const uint32_t tokens = s->deepest->depth;
    if (tokens > 0)
        print_plain(s, "store", seconds / tokens * 1e6, "us/token", "filling the cache: all layers, no output");
}

void layer_figures_allocations(const layer_set *s, uint64_t calls)
{
    print_plain(s, "warm_allocations", (double)calls, "calls", "of the allocator in 8 warm decode steps");
}

bool layer_figures_memory(const layer_set *s)
{
    const double mib = 1048576;
    const uint64_t resident = machine_resident_bytes();
    qsa_config config = s->steps.history.config;
    qsa_memory_plan plan;
    config.layers = 12;
    config.capacity_tokens = 262144;
    config.max_step_tokens = 2048;
    if (!bench_ok(qsa_plan_memory(&config, &plan)))
        return false;
    print_plain(s, "memory_planned", (double)s->steps.history.plan.total_bytes / mib, "MiB",
                "of the cache, by qsa_plan_memory");
    print_plain(s, "memory_resident", resident ? (double)resident / mib : NAN, "MiB",
                "of the process: cache, inputs, outputs, probe");
    print_plain(s, "scratch", (double)plan.scratch_bytes / mib, "MiB", "of steps of 2,048 tokens at 262,144");
    print_plain(s, "bytes_per_token", (double)plan.bytes_per_token, "bytes",
                "K, V and index keys of a token in 12 layers, as in the model");
    return true;
}

/* ---- measures ---- */

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
    return sample->seconds / bench_steps_layers(item);
}

static double append_seconds(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->splits[0];
}

static double scan_seconds(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->splits[1] + sample->splits[2];
}

static double row_seconds(const bench_item *item, const bench_sample *sample)
{
    (void)item;
    return sample->splits[3] + sample->splits[4];
}

static double scan_share_of_peak(const bench_item *item, const bench_sample *sample)
{
    const layer_set *s = item->reporter;
    const double bytes = bench_scan_bytes(&s->steps.history.config, (uint64_t)item->depth + 1) * s->options->layers;
    return bytes > 0 ? bytes / sample->rate / scan_seconds(item, sample) : NAN;
}

/* The limit is the longer of reading K and V and of the multiply-adds. */
static double row_share_of_peak(const bench_item *item, const bench_sample *sample)
{
    const layer_set *s = item->reporter;
    const qsa_config *c = &s->steps.history.config;
    const uint64_t visible = (uint64_t)item->depth + 1;
    const double fma_rate = bench_statistics(s->middle, bench_rate).median;
    const double reading = bench_row_bytes(c, visible) / sample->rate;
    const double computing = bench_row_operations(c, visible) / fma_rate;
    return fmax(reading, computing) * s->options->layers / row_seconds(item, sample); /* fmax ignores NAN */
}

static double seconds_at_rate(const bench_item *item, const bench_sample *sample)
{
    return bench_seconds(item, sample) * bench_rate(item, sample);
}

/* ---- figures of blocks ---- */

static void print_peak(const layer_set *s, const char *name, const bench_item *item, const char *note)
{
    bench_figure f = part_of_step(item, bench_rate, 1e-9, probe_unit(item->kind));
    snprintf(f.name, sizeof f.name, "%s", name);
    f.probe = NAN;
    f.note = note;
    print(s, &f);
}

/* An empty cache leaves decode nothing to read. */
static bool has_limit(const bench_item *item)
{
    return item->work > 0 && (item->depth > 0 || item->kind == PROBE_FMA);
}

/* A prefill block runs some of the layers; the figure is of all. */
static double all_layers(const layer_set *s, const bench_item *item)
{
    return (double)s->options->layers / bench_steps_layers(item);
}

static void print_step(const layer_set *s, const bench_item *item, double scale, const char *unit)
{
    const bool is_decode = item->kind == PROBE_READ;
    bench_figure f = bench_figure_of(item, bench_seconds, scale * all_layers(s, item), unit);
    if (!has_limit(item))
        f.ratio = NAN;
    name_by_depth(&f, is_decode ? "decode" : "prefill", item->depth);
    print(s, &f);
    f = part_of_step(item, mean_layer, scale, unit);
    f.least = bench_statistics(item, fastest).least * scale;
    f.most = bench_statistics(item, slowest).most * scale;
    name_by_depth(&f, is_decode ? "decode_layer" : "prefill_layer", item->depth);
    print(s, &f);
}

/* Where a decode step at the last depth spends its time. */
static void print_phases(const layer_set *s)
{
    static const struct {
        const char *name, *note;
        bench_measure *seconds, *share_of_peak; /* NULL: its limit is not known */
    } PHASES[] = {{"decode_append", "K, V and index keys written", append_seconds, NULL},
                  {"decode_scan", "indexer scores, selection", scan_seconds, scan_share_of_peak},
                  {"decode_row", "QK^T, softmax, PV", row_seconds, row_share_of_peak}};
    for (size_t i = 0; i < sizeof PHASES / sizeof *PHASES; i++) {
        bench_figure f = part_of_step(s->phases, PHASES[i].seconds, 1e3, "ms");
        name_by_depth(&f, PHASES[i].name, s->phases->depth);
        f.note = PHASES[i].note;
        if (PHASES[i].share_of_peak && has_limit(s->phases))
            f.ratio = bench_statistics(s->phases, PHASES[i].share_of_peak).median;
        print(s, &f);
    }
}

/* One thread's time / that of all. The ratio of decode is to how the memory bandwidth itself scales. */
static void print_scaling(const layer_set *s, const char *what, const bench_item *alone, const bench_item *together)
{
    if (!alone)
        return;
    const bool is_decode = together->kind == PROBE_READ;
    const bench_statistic q = bench_quotients(alone, together, bench_seconds);
    bench_figure f = bench_figure_plain(
        "", q.median, "times", is_decode ? "speedup; its ratio is to that of the bandwidth" : "speedup; same output");
    snprintf(f.name, sizeof f.name, "%s_threads_1_over_%" PRIu32, what, s->options->threads);
    f.least = q.least;
    f.most = q.most;
    f.kept = q.kept;
    f.dropped = q.dropped;
    f.ratio = is_decode ? bench_quotients(alone, together, seconds_at_rate).median : q.median;
    print(s, &f);
}

void layer_figures_blocks(const layer_set *s)
{
    print_peak(s, "read_rate", s->deepest, "memory bandwidth, all threads");
    print_peak(s, "fma_rate", s->middle, "FMA from registers, all threads");
    for (size_t i = 0; i < s->options->n_depths; i++)
        print_step(s, s->decode[i], 1e3, "ms");
    for (size_t i = 0; i < s->options->n_depths; i++)
        print_step(s, s->prefill[i], 1e6 / BENCH_CHUNK, "us/token");
    print_phases(s);
    print_scaling(s, "prefill", s->prefill_alone, s->middle);
    print_scaling(s, "decode", s->decode_alone, s->deepest);
}

/* ---- curves ---- */

static double limit_seconds(const bench_item *item)
{
    return has_limit(item) ? item->work / bench_statistics(item, bench_rate).median : NAN;
}

void layer_figures_curves(const layer_set *s, bench_curves *out)
{
    for (size_t i = 0; i < s->options->n_depths; i++) {
        const double us = 1e6 / BENCH_CHUNK * all_layers(s, s->prefill[i]);
        out->decode[i] = bench_statistics(s->decode[i], bench_seconds).median * 1e3;
        out->decode_limit[i] = limit_seconds(s->decode[i]) * 1e3;
        out->prefill[i] = bench_statistics(s->prefill[i], bench_seconds).median * us;
        out->prefill_limit[i] = limit_seconds(s->prefill[i]) * us;
    }
}
