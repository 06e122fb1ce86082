/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/whole_model.h"

#include "bench/curves.h"
#include "bench/figures.h"
#include "bench/machine.h"
#include "bench/status.h"
#include "console/clock.h"
#include "console/device_option.h"
#include "console/engine_options.h"
#include "console/memory.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert((int)QSA_PART_COUNT <= (int)BENCH_SPLITS, "a sample has room for every part of the model");

static const double DECODE_SHARE = 0.25; /* of the time: a prefill step takes longer */
static const uint64_t SEED = 1;          /* of the random history */

enum { DECODE, PREFILL, KINDS };

typedef struct whole {
    const bench_options *options;
    qsa_model *model;
    qsa_model_info info;
    qsa_context *context;
    qsa_session *session;
    probe probe;
    bench_printer printer;
    int32_t *tokens; /* [BENCH_CHUNK] */
    float *logits;   /* [vocabulary] */
    bench_item items[BENCH_MAX_DEPTHS][KINDS];
} whole;

static bool good(qsa_status status)
{
    if (status != QSA_OK)
        engine_say("bench");
    return status == QSA_OK;
}

/* ---- opening ---- */

static uint32_t last_depth(const bench_options *o)
{
    return o->depths[o->n_depths - 1];
}

static bool has_room(const whole *w)
{
    qsa_config config = w->info.qsa;
    qsa_memory_plan plan;
    config.kv_type = w->options->kv;
    config.capacity_tokens = (uint64_t)last_depth(w->options) + BENCH_CHUNK;
    config.max_step_tokens = BENCH_CHUNK;
    config.max_parts = w->options->threads;
    return bench_ok(qsa_plan_memory(&config, &plan)) && machine_has_memory(plan.total_bytes);
}

static bool open_context(whole *w)
{
    qsa_context_options o;
    qsa_context_options_init(&o);
    o.context = last_depth(w->options) + BENCH_CHUNK;
    o.chunk = BENCH_CHUNK;
    o.threads = w->options->threads;
    o.kv = w->options->kv;
    o.checkpoints = 0;
    o.profile = w->options->profile;
    o.device = device_in_use();
    qsa_context_stats stats;
    if (!good(qsa_context_create(w->model, &o, &w->context)))
        return false;
    qsa_context_get_stats(w->context, &stats);
    w->printer.isa = stats.isa;
    probe_open(&w->probe, stats.isa);
    return true;
}

static bool open_whole(whole *w, const bench_options *o)
{
    w->options = o;
    w->printer = (bench_printer){o->json, o->threads, NULL, bench_kv_names[o->kv], bench_device_name(o)};
    if (!engine_open_model("bench", o->model, QSA_WEIGHTS_NATIVE, &w->model))
        return false;
    qsa_model_get_info(w->model, &w->info);
    w->logits = memory_new(w->info.vocabulary, sizeof *w->logits);
    w->tokens = memory_new(BENCH_CHUNK, sizeof *w->tokens);
    for (int i = 0; i < BENCH_CHUNK; i++)
        w->tokens[i] = (int32_t)((uint32_t)i * 7919 % w->info.vocabulary);
    return has_room(w) && open_context(w) && good(qsa_session_open(w->context, &w->session));
}

static void close_whole(whole *w)
{
    if (w->session)
        qsa_session_close(w->session);
    if (w->context)
        qsa_context_destroy(w->context);
    if (w->model)
        qsa_model_close(w->model);
    probe_close(&w->probe);
    free(w->logits);
    free(w->tokens);
}

/* ---- blocks ---- */

static bool run_tokens(bench_item *item, uint32_t n, bench_sample *sample)
{
    whole *w = item->owner;
    qsa_context_profile before, after;
    const qsa_batch_item batch = {w->session, w->tokens, n, 1, w->logits};
    qsa_context_get_profile(w->context, &before);
    const double begin = clock_seconds();
    const bool is_good = good(qsa_batch_run(w->context, &batch, 1));
    sample->seconds = clock_seconds() - begin;
    qsa_context_get_profile(w->context, &after);
    for (int part = 0; part < QSA_PART_COUNT; part++)
        sample->splits[part] = 1e-9 * (double)(after.part_ns[part] - before.part_ns[part]);
    return is_good;
}

/* Every block starts from the same state, so gives the same logits. */
static bool check_logits(bench_item *item)
{
    const whole *w = item->owner;
    const uint64_t hash = XXH3_64bits(w->logits, w->info.vocabulary * sizeof *w->logits);
    if (item->hash && item->hash != hash) {
        options_say("bench", "two runs of the same tokens at %" PRIu32 " gave %016" PRIx64 " and %016" PRIx64,
                    item->depth, item->hash, hash);
        return false;
    }
    item->hash = hash;
    return true;
}

static bool run_block(bench_item *item, bench_sample *sample)
{
    whole *w = item->owner;
    return run_tokens(item, item->kind == PROBE_FMA ? BENCH_CHUNK : 1, sample) && check_logits(item) &&
           good(qsa_session_return(w->session));
}

/* Fills the cache to a depth and measures there, before going on to the next. */
static bool measure_depth(whole *w, size_t i)
{
    const uint32_t depth = w->options->depths[i];
    const uint64_t there = qsa_session_tokens(w->session);
    if (depth > there && !good(qsa_session_fill(w->session, depth - there, SEED + i)))
        return false;
    if (!good(qsa_session_mark(w->session)))
        return false;
    for (int kind = 0; kind < KINDS; kind++) {
        bench_item *item = &w->items[i][kind];
        *item = (bench_item){.threads = w->options->threads, .depth = depth, .run = run_block, .owner = w};
        item->kind = kind == DECODE ? PROBE_READ : PROBE_FMA;
    }
    const double seconds = (double)w->options->seconds / (double)w->options->n_depths;
    return bench_rounds(&w->probe, &w->items[i][DECODE], 1, DECODE_SHARE * seconds) &&
           bench_rounds(&w->probe, &w->items[i][PREFILL], 1, (1 - DECODE_SHARE) * seconds);
}

/* ---- figures ---- */

static double scale_of(const bench_item *item)
{
    return item->kind == PROBE_READ ? 1e3 : 1e6 / BENCH_CHUNK;
}

static const char *unit_of(const bench_item *item)
{
    return item->kind == PROBE_READ ? "ms" : "us/token";
}

static const char *name_of(const bench_item *item)
{
    return item->kind == PROBE_READ ? "model_decode" : "model_prefill";
}

static void print_item(const whole *w, const bench_item *item)
{
    bench_figure f = bench_figure_of(item, bench_seconds, scale_of(item), unit_of(item));
    snprintf(f.name, sizeof f.name, "%s_%" PRIu32, name_of(item), item->depth);
    bench_print(&w->printer, &f);
}

/* "QSA scan" -> "qsa_scan" */
static void write_part_name(char *out, size_t size, const bench_item *item, int part)
{
    const int prefix = snprintf(out, size, "%s_%" PRIu32 "_", name_of(item), item->depth);
    snprintf(out + prefix, size - (size_t)prefix, "%s", qsa_model_part_name((qsa_model_part)part));
    for (char *c = out + prefix; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '_';
}

static double mean_of_part(const bench_item *item, int part, double *out_share)
{
    double seconds = 0, all = 0;
    for (uint32_t i = 0; i < item->blocks; i++)
        if (item->samples[i].is_kept) {
            seconds += item->samples[i].splits[part];
            all += item->samples[i].seconds;
        }
    const uint32_t kept = bench_statistics(item, bench_seconds).kept;
    *out_share = kept < BENCH_MIN_BLOCKS ? NAN : seconds / all;
    return kept < BENCH_MIN_BLOCKS ? NAN : seconds / kept;
}

static void print_profile(const whole *w, const bench_item *item)
{
    for (int part = 0; part < QSA_PART_COUNT; part++) {
        bench_figure f = bench_figure_plain("", 0, unit_of(item), NULL);
        f.value = mean_of_part(item, part, &f.share) * scale_of(item);
        write_part_name(f.name, sizeof f.name, item, part);
        bench_print(&w->printer, &f);
    }
}

static void print_memory(const whole *w)
{
    const double mib = 1048576;
    const uint64_t resident = machine_resident_bytes();
    qsa_context_stats stats;
    qsa_context_get_stats(w->context, &stats);
    const struct {
        const char *name, *note;
        double bytes;
    } rows[] = {{"file", "mapped: pages are read on first use", (double)w->info.file_bytes},
                {"weights_copied", "dequantised or repacked", (double)w->info.copied_bytes},
                {"memory_planned", "of the cache, by qsa_plan_memory", (double)stats.plan.total_bytes},
                {"memory_states", "recurrent states", (double)stats.state_bytes},
                {"memory_activations", "of the forward pass", (double)stats.compute_bytes},
                {"memory_resident", "of the process, with mapped pages", resident ? (double)resident : NAN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bench_figure f = bench_figure_plain(rows[i].name, rows[i].bytes / mib, "MiB", rows[i].note);
        bench_print(&w->printer, &f);
    }
}

static void print_depth(const whole *w, size_t i)
{
    for (int kind = 0; kind < KINDS; kind++)
        print_item(w, &w->items[i][kind]);
    for (int kind = 0; w->options->profile && kind < KINDS; kind++)
        print_profile(w, &w->items[i][kind]);
}

static bool draw(const whole *w)
{
    bench_curves curves;
    char title[128];
    for (size_t i = 0; i < w->options->n_depths; i++) {
        const bench_item *items = w->items[i];
        curves.decode[i] = bench_statistics(&items[DECODE], bench_seconds).median * scale_of(&items[DECODE]);
        curves.prefill[i] = bench_statistics(&items[PREFILL], bench_seconds).median * scale_of(&items[PREFILL]);
        curves.decode_limit[i] = curves.prefill_limit[i] = NAN;
    }
    snprintf(title, sizeof title, "%s: %" PRIu32 " layers, %" PRIu32 " of them QSA", w->info.architecture,
             w->info.layers, w->info.qsa.layers);
    return bench_curves_draw(w->options, w->printer.isa, title, &curves);
}

static bool measure(whole *w)
{
    char title[256];
    snprintf(title, sizeof title,
             "%s, %" PRIu32 " layers, %" PRIu32 " of them QSA, %s; %" PRIu32 " threads, K/V %s, device %s, %s kernels",
             w->info.architecture, w->info.layers, w->info.qsa.layers, w->info.main_type, w->options->threads,
             w->printer.kv, w->printer.device, w->printer.isa);
    bench_print_head(&w->printer, title,
                     "peak: memory bandwidth for decode, FMA for prefill; of a whole model no share");
    for (size_t i = 0; i < w->options->n_depths; i++) {
        if (!measure_depth(w, i))
            return false;
        print_depth(w, i);
    }
    print_memory(w);
    return draw(w);
}

bool bench_run_model(const bench_options *o)
{
    whole *w = memory_new(1, sizeof *w);
    const bool is_good = open_whole(w, o) && measure(w);
    close_whole(w);
    free(w);
    return is_good;
}
