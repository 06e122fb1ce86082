/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/steps.h"

#include "bench/status.h"
#include "console/clock.h"
#include "console/memory.h"
#include "console/options.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PREFILL_LAYERS = 3 }; /* of a block: all layers cost the same */

/* What an item runs. */
typedef struct layer_run {
    bench_steps *all;
    uint32_t tokens, n_layers; /* of a block */
    uint32_t next_layer;
    qsa_threads *pool;
    bool by_phase; /* every phase is timed */
} layer_run;

/* ---- what a step needs at least ---- */

/* Tokens that a query attends to. */
static uint64_t selected_tokens(const qsa_config *c, uint64_t visible)
{
    return visible < c->budget ? visible : c->budget + visible % c->ratio;
}

double bench_row_bytes(const qsa_config *c, uint64_t visible)
{
    static const double element[] = {4, 2, 2, 34.0 / 32}; /* by qsa_kv_type */
    return (double)(selected_tokens(c, visible) * c->kv_heads * c->head_dim) * 2 * element[c->kv_type];
}

/* Groups whose pooled keys are scored: none while all of them are selected. */
static double scored_groups(const qsa_config *c, uint64_t visible)
{
    const uint64_t groups = visible / c->ratio;
    return groups > c->budget / c->ratio ? (double)groups : 0;
}

double bench_scan_bytes(const qsa_config *c, uint64_t visible)
{
    const double element = c->profile == QSA_PROFILE_BF16 ? 2 : 4;
    return scored_groups(c, visible) * c->index_dim * element;
}

double bench_row_operations(const qsa_config *c, uint64_t visible)
{
    return (double)selected_tokens(c, visible) * c->q_heads * c->head_dim * 2 * 2;
}

static double operations(const qsa_config *c, uint32_t depth, uint32_t tokens)
{
    double sum = 0;
    for (uint64_t visible = depth + 1; visible <= (uint64_t)depth + tokens; visible++)
        sum += scored_groups(c, visible) * c->index_heads * c->index_dim * 2 + bench_row_operations(c, visible);
    return sum;
}

/* ---- running a block ---- */

typedef struct layer_phase {
    qsa_step *step;
    uint32_t phase;
} layer_phase;

/* The phases' errors are sticky in the step. */
static void run_part(void *context, uint32_t part, uint32_t parts)
{
    const layer_phase *now = context;
    (void)qsa_layer_phase(now->step, now->phase, part, parts);
}

/* A layer phase by phase. An error of a phase is seen at commit. */
static bool run_layer_phases(qsa_threads *pool, qsa_step *step, uint32_t layer, const qsa_tensors *tensors,
                             const qsa_output *out, bench_sample *sample)
{
    if (!bench_ok(qsa_layer_begin(step, layer, tensors, out)))
        return false;
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++) {
        const double begin = clock_seconds();
        (void)qsa_threads_run(pool, run_part, &(layer_phase){step, phase});
        sample->splits[phase] += clock_seconds() - begin;
    }
    return true;
}

static bool run_layer(bench_item *item, qsa_step *step, uint32_t i, bench_sample *sample)
{
    const layer_run *run = item->owner;
    const bench_steps *all = run->all;
    const size_t q = all->history.per_token[0];
    const qsa_tensors tensors = bench_history_tensors(&all->history);
    const qsa_output out = {all->output + i * run->tokens * q, q, all->history.config.head_dim};
    const uint32_t layer = (run->next_layer + i) % all->history.config.layers;
    const double begin = clock_seconds();
    const bool is_good = run->by_phase ? run_layer_phases(run->pool, step, layer, &tensors, &out, sample)
                                       : bench_ok(qsa_threads_layer(run->pool, step, layer, &tensors, &out));
    const double seconds = clock_seconds() - begin;
    sample->fastest = i == 0 ? seconds : fmin(seconds, sample->fastest);
    sample->slowest = i == 0 ? seconds : fmax(seconds, sample->slowest);
    return is_good;
}

/* A step of all layers is committed; one of some layers is aborted. */
static bool run_step(bench_item *item, qsa_seq seq, bench_sample *sample)
{
    layer_run *run = item->owner;
    const uint32_t n_layers = run->all->history.config.layers;
    const qsa_entry entry = {.seq = seq, .position = item->depth, .tokens = run->tokens};
    qsa_step *step;
    bool is_good = true;
    const double begin = clock_seconds();
    if (!bench_ok(qsa_step_begin(run->all->history.cache, &entry, 1, &step)))
        return false;
    for (uint32_t i = 0; is_good && i < run->n_layers; i++)
        is_good = run_layer(item, step, i, sample);
    if (is_good && run->n_layers == n_layers)
        is_good = bench_ok(qsa_step_commit(step, NULL));
    else
        qsa_step_abort(step);
    sample->seconds = clock_seconds() - begin;
    run->next_layer = (run->next_layer + run->n_layers) % n_layers;
    return is_good;
}

/* Every layer and every block gives the same output. */
static bool check_output(bench_item *item)
{
    const layer_run *run = item->owner;
    const size_t n = run->tokens * run->all->history.per_token[0];
    for (uint32_t i = 0; i < run->n_layers; i++) {
        const uint64_t hash = XXH3_64bits(run->all->output + i * n, n * sizeof(float));
        if (item->hash && item->hash != hash) {
            options_say("bench", "two runs of the same step at %" PRIu32 " tokens gave %016" PRIx64 " and %016" PRIx64,
                        item->depth, item->hash, hash);
            return false;
        }
        item->hash = hash;
    }
    return true;
}

static bool run_block(bench_item *item, bench_sample *sample)
{
    const layer_run *run = item->owner;
    bench_history *history = &run->all->history;
    qsa_seq seq;
    if (!bench_history_fork(history, item->depth, &seq))
        return false;
    const bool is_good = run_step(item, seq, sample);
    return bench_ok(qsa_seq_close(history->cache, seq)) && is_good && check_output(item);
}

/* ---- items ---- */

bench_item *bench_steps_add(bench_steps *all, uint32_t depth, uint32_t tokens, qsa_threads *pool, bool by_phase)
{
    assert(all->n_items < BENCH_MAX_ITEMS && tokens > 0 && tokens <= BENCH_CHUNK);
    const qsa_config *c = &all->history.config;
    const bool is_prefill = tokens > 1;
    layer_run *run = memory_new(1, sizeof *run);
    *run = (layer_run){.all = all, .tokens = tokens, .n_layers = c->layers, .pool = pool, .by_phase = by_phase};
    if (is_prefill && c->layers > PREFILL_LAYERS)
        run->n_layers = PREFILL_LAYERS;
    bench_item *item = &all->items[all->n_items++];
    *item = (bench_item){.threads = qsa_threads_count(pool), .depth = depth, .run = run_block, .owner = run};
    item->kind = is_prefill ? PROBE_FMA : PROBE_READ;
    if (c->device) /* whose peak is not known */
        return item;
    item->work = is_prefill ? operations(c, depth, tokens) * run->n_layers
                            : (bench_scan_bytes(c, depth + 1) + bench_row_bytes(c, depth + 1)) * c->layers;
    return item;
}

uint32_t bench_steps_layers(const bench_item *item)
{
    const layer_run *run = item->owner;
    return run->n_layers;
}

/* ---- life ---- */

bool bench_steps_open(bench_steps *all, const bench_options *o)
{
    *all = (bench_steps){0};
    if (!bench_history_open(&all->history, o, NULL))
        return false;
    const size_t layers = o->layers > PREFILL_LAYERS * BENCH_CHUNK ? o->layers : PREFILL_LAYERS * BENCH_CHUNK;
    all->output = memory_new(layers * all->history.per_token[0], sizeof *all->output);
    all->items = memory_new(BENCH_MAX_ITEMS, sizeof *all->items);
    return true;
}

void bench_steps_close(bench_steps *all)
{
    for (size_t i = 0; i < all->n_items; i++)
        free(all->items[i].owner);
    free(all->items);
    free(all->output);
    bench_history_close(&all->history);
    *all = (bench_steps){0};
}
