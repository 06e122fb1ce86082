/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/runs.h"

#include "console/clock.h"
#include "console/memory.h"
#include "console/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PROMPT_LAYERS = 3 }; /* that a block of a prompt runs, the next ones in the next block: they cost the same */

/* What an item runs. */
typedef struct layer_run {
    bench_runs *all;
    uint32_t tokens, n_layers; /* of a block */
    uint32_t next_layer;
    qsa_threads *pool; /* NULL: phase by phase, on the item's crew */
} layer_run;

/* ---- what cannot be spared ---- */

/* Bytes of K and V that one token's row has in one layer. */
double bench_row_bytes(const qsa_config *c, uint64_t visible)
{
    static const double element[] = {4, 2, 2, 34.0 / 32};
    const uint64_t row = visible < c->budget ? visible : c->budget + visible % c->ratio;
    return (double)(row * c->kv_heads * c->head_dim) * 2 * element[c->kv_type];
}

/* Pooled keys are needed once a query has to drop something. */
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
    const uint64_t row = visible < c->budget ? visible : c->budget + visible % c->ratio;
    return (double)row * c->q_heads * c->head_dim * 2 * 2;
}

static double operations(const qsa_config *c, uint32_t depth, uint32_t tokens)
{
    double sum = 0;
    for (uint64_t visible = depth + 1; visible <= (uint64_t)depth + tokens; visible++)
        sum += scored_groups(c, visible) * c->index_heads * c->index_dim * 2 + bench_row_operations(c, visible);
    return sum;
}

/* ---- running a block ---- */

typedef struct phase_call {
    qsa_step *step;
    uint32_t phase;
} phase_call;

static void run_part(void *context, uint32_t part, uint32_t parts)
{
    const phase_call *call = context;
    (void)qsa_layer_phase(call->step, call->phase, part, parts); /* the error is sticky in the step */
}

/* A layer phase by phase. Its errors are seen at commit. */
static bool run_phases(crew *crew, qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out,
                       bench_sample *sample)
{
    if (!bench_good(qsa_layer_begin(step, layer, tensors, out)))
        return false;
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++) {
        phase_call call = {step, phase};
        const double begin = clock_seconds();
        crew_run(crew, run_part, &call);
        sample->splits[phase] += clock_seconds() - begin;
    }
    return true;
}

static bool run_layer(bench_item *item, qsa_step *step, uint32_t i, bench_sample *sample)
{
    const layer_run *run = item->owner;
    const bench_runs *all = run->all;
    const size_t q = all->state.per_token[0];
    const qsa_tensors tensors = bench_state_tensors(&all->state);
    const qsa_output out = {all->output + i * run->tokens * q, q, all->state.config.head_dim};
    const uint32_t layer = (run->next_layer + i) % all->state.config.layers;
    const double begin = clock_seconds();
    const bool is_good = run->pool ? bench_good(qsa_threads_layer(run->pool, step, layer, &tensors, &out))
                                   : run_phases(item->crew, step, layer, &tensors, &out, sample);
    const double seconds = clock_seconds() - begin;
    sample->fastest = i == 0 ? seconds : fmin(seconds, sample->fastest);
    sample->slowest = i == 0 ? seconds : fmax(seconds, sample->slowest);
    return is_good;
}

/* A whole step is committed; of some layers only there is nothing to commit. */
static bool run_step(bench_item *item, qsa_seq seq, bench_sample *sample)
{
    layer_run *run = item->owner;
    const uint32_t n_layers = run->all->state.config.layers;
    const qsa_entry entry = {.seq = seq, .position = item->depth, .tokens = run->tokens};
    qsa_step *step;
    bool is_good = true;
    const double begin = clock_seconds();
    if (!bench_good(qsa_step_begin(run->all->state.cache, &entry, 1, &step)))
        return false;
    for (uint32_t i = 0; is_good && i < run->n_layers; i++)
        is_good = run_layer(item, step, i, sample);
    if (is_good && run->n_layers == n_layers)
        is_good = bench_good(qsa_step_commit(step, NULL));
    else
        qsa_step_abort(step);
    sample->seconds = clock_seconds() - begin;
    run->next_layer = (run->next_layer + run->n_layers) % n_layers;
    return is_good;
}

/* Every layer and every block computes the same numbers. */
static bool check_output(bench_item *item)
{
    const layer_run *run = item->owner;
    const size_t n = run->tokens * run->all->state.per_token[0];
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
    bench_state *state = &run->all->state;
    qsa_seq seq;
    if (!bench_state_fork(state, item->depth, &seq))
        return false;
    crew_stay_awake(item->crew, !run->pool);
    const bool is_good = run_step(item, seq, sample);
    crew_stay_awake(item->crew, false);
    return bench_good(qsa_seq_close(state->cache, seq)) && is_good && check_output(item);
}

/* ---- the items ---- */

bench_item *bench_runs_add(bench_runs *all, uint32_t depth, uint32_t tokens, qsa_threads *pool, crew *crew)
{
    const qsa_config *c = &all->state.config;
    const bool is_prompt = tokens > 1;
    layer_run *run = memory_new(1, sizeof *run);
    *run = (layer_run){.all = all, .tokens = tokens, .n_layers = c->layers, .pool = pool};
    if (is_prompt && c->layers > PROMPT_LAYERS)
        run->n_layers = PROMPT_LAYERS;
    bench_item *item = &all->items[all->n_items++];
    *item = (bench_item){.kind = is_prompt ? PROBE_FMA : PROBE_READ, .crew = crew, .depth = depth, .run = run_block};
    item->owner = run;
    if (c->device) /* what it could do at best is not known */
        return item;
    item->work = is_prompt ? operations(c, depth, tokens) * run->n_layers
                           : (bench_scan_bytes(c, depth + 1) + bench_row_bytes(c, depth + 1)) * c->layers;
    return item;
}

uint32_t bench_runs_layers(const bench_item *item)
{
    const layer_run *run = item->owner;
    return run->n_layers;
}

/* ---- life ---- */

bool bench_runs_open(bench_runs *all, const bench_request *r)
{
    *all = (bench_runs){0};
    if (!bench_state_open(&all->state, r, NULL))
        return false;
    const size_t layers = r->layers > PROMPT_LAYERS * BENCH_CHUNK ? r->layers : PROMPT_LAYERS * BENCH_CHUNK;
    all->output = memory_new(layers * all->state.per_token[0], sizeof *all->output);
    all->items = memory_new(BENCH_MAX_ITEMS, sizeof *all->items);
    return true;
}

void bench_runs_close(bench_runs *all)
{
    for (size_t i = 0; i < all->n_items; i++)
        free(all->items[i].owner);
    free(all->items);
    free(all->output);
    bench_state_close(&all->state);
    *all = (bench_runs){0};
}
