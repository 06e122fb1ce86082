/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/layers.h"

#include "bench/allocations.h"
#include "bench/layer_figures.h"
#include "bench/status.h"
#include "console/clock.h"
#include "console/options.h"

#include <inttypes.h>
#include <stdio.h>

enum { MIDDLE_DEPTH = 32768 /* where prefill is also measured on one thread, if it is one of the depths */ };

typedef struct layers {
    layer_set set;
    qsa_threads *pool, *single; /* of all threads, and of one */
    probe probe;
} layers;

/* ---- life ---- */

static bool open_layers(layers *l, const bench_options *o)
{
    *l = (layers){.set = {.options = o}};
    if (!bench_steps_open(&l->set.steps, o))
        return false;
    const char *isa = qsa_cache_isa(l->set.steps.history.cache);
    l->set.printer = (bench_printer){o->json, o->threads, isa, bench_kv_names[o->kv], bench_device_name(o)};
    probe_open(&l->probe, isa);
    return bench_ok(qsa_threads_create(o->threads, &l->pool)) && bench_ok(qsa_threads_create(1, &l->single));
}

static void close_layers(layers *l)
{
    qsa_threads_destroy(l->pool);
    qsa_threads_destroy(l->single);
    probe_close(&l->probe);
    bench_steps_close(&l->set.steps);
}

/* ---- what is measured ---- */

static size_t middle_depth(const bench_options *o)
{
    for (size_t i = 0; i < o->n_depths; i++)
        if (o->depths[i] == MIDDLE_DEPTH)
            return i;
    return o->n_depths - 1;
}

static void add_items(layers *l)
{
    layer_set *s = &l->set;
    const bench_options *o = s->options;
    const size_t last = o->n_depths - 1, middle = middle_depth(o);
    for (size_t i = 0; i <= last; i++)
        s->decode[i] = bench_steps_add(&s->steps, o->depths[i], 1, l->pool, false);
    s->deepest = s->decode[last];
    s->phases = bench_steps_add(&s->steps, o->depths[last], 1, l->pool, true);
    if (o->threads > 1)
        s->decode_alone = bench_steps_add(&s->steps, o->depths[last], 1, l->single, false);
    for (size_t i = 0; i <= last; i++) {
        s->prefill[i] = bench_steps_add(&s->steps, o->depths[i], BENCH_CHUNK, l->pool, false);
        if (i == middle && o->threads > 1)
            s->prefill_alone = bench_steps_add(&s->steps, o->depths[i], BENCH_CHUNK, l->single, false);
    }
    s->middle = s->prefill[middle];
    for (size_t i = 0; i < s->steps.n_items; i++)
        s->steps.items[i].reporter = s;
}

static bool fill(layers *l)
{
    const layer_set *s = &l->set;
    const double begin = clock_seconds();
    if (!bench_history_fill(&l->set.steps.history, l->pool, s->deepest->depth))
        return false;
    layer_figures_store(s, clock_seconds() - begin);
    return true;
}

/* The same step gives the same output however it is run. */
static bool same_output(const bench_item *a, const bench_item *b)
{
    if (!a || a->hash == b->hash)
        return true;
    options_say("bench", "the same step gave %016" PRIx64 " and %016" PRIx64 " on other threads", a->hash, b->hash);
    return false;
}

static bool draw(const layer_set *s)
{
    bench_curves curves;
    char title[64];
    layer_figures_curves(s, &curves);
    snprintf(title, sizeof title, "%" PRIu32 " QSA layers of Qwen3.8-Flash-Next's shape", s->options->layers);
    return bench_curves_draw(s->options, s->printer.isa, title, &curves);
}

static bool measure(layers *l)
{
    layer_set *s = &l->set;
    uint64_t calls;
    add_items(l);
    layer_figures_head(s);
    if (!bench_count_allocations(s->options, &calls))
        return false;
    layer_figures_allocations(s, calls);
    if (!fill(l) || !layer_figures_memory(s) ||
        !bench_rounds(&l->probe, s->steps.items, s->steps.n_items, s->options->seconds))
        return false;
    layer_figures_blocks(s);
    return same_output(s->phases, s->deepest) && same_output(s->decode_alone, s->deepest) &&
           same_output(s->prefill_alone, s->middle) && draw(s);
}

bool bench_run_layers(const bench_options *o)
{
    layers l;
    const bool is_good = open_layers(&l, o) && measure(&l);
    close_layers(&l);
    return is_good;
}
