/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/state.h"

#include "console/device_option.h"
#include "console/memory.h"
#include "verify/inputs.h"

#include <stdlib.h>

enum { INPUT_TOKENS = 8 * BENCH_CHUNK }; /* the history takes them from changing places */

/* ---- opening ---- */

static void make_inputs(bench_state *s)
{
    const qsa_config *c = &s->config;
    const size_t sizes[5] = {(size_t)c->q_heads * c->head_dim, (size_t)c->kv_heads * c->head_dim,
                             (size_t)c->kv_heads * c->head_dim, (size_t)c->index_heads * c->index_dim, c->index_dim};
    for (int i = 0; i < 5; i++) {
        const size_t n = INPUT_TOKENS * sizes[i];
        s->per_token[i] = sizes[i];
        s->inputs[i] = memory_new(n, sizeof(float));
        for (size_t k = 0; k < n; k++)
            s->inputs[i][k] = lane_value(200 + (uint64_t)i, k);
    }
}

bool bench_state_open(bench_state *s, const bench_request *r, const qsa_allocator *allocator)
{
    *s = (bench_state){0};
    qsa_config *c = &s->config;
    qsa_config_init(c);
    c->layers = r->layers;
    c->kv_type = r->kv;
    c->capacity_tokens = (uint64_t)r->depths[r->n_depths - 1] + BENCH_CHUNK;
    c->max_sequences = 2;
    c->max_step_tokens = BENCH_CHUNK;
    c->max_parts = r->threads;
    c->device = device_in_use();
    if (!bench_good(qsa_plan_memory(c, &s->plan)) || !bench_fits(s->plan.total_bytes))
        return false;
    c->allocator = allocator;
    const bool is_open = bench_good(qsa_cache_create(c, &s->cache)) && bench_good(qsa_seq_open(s->cache, &s->history));
    c->allocator = NULL;
    if (is_open)
        make_inputs(s);
    return is_open;
}

void bench_state_close(bench_state *s)
{
    for (int i = 0; i < 5; i++)
        free(s->inputs[i]);
    qsa_cache_destroy(s->cache);
    *s = (bench_state){0};
}

/* ---- inputs ---- */

static qsa_tensors tensors_at(const bench_state *s, size_t token)
{
    qsa_strided at[5];
    for (int i = 0; i < 5; i++)
        at[i] = (qsa_strided){s->inputs[i] + token * s->per_token[i], s->per_token[i], 0};
    at[0].head_stride = at[1].head_stride = at[2].head_stride = s->config.head_dim;
    at[3].head_stride = s->config.index_dim;
    return (qsa_tensors){at[0], at[1], at[2], at[3], at[4]};
}

qsa_tensors bench_state_tensors(const bench_state *s)
{
    return tensors_at(s, 0);
}

/* ---- the history ---- */

static bool store(bench_state *s, qsa_threads *threads, uint32_t position, uint32_t n)
{
    const qsa_tensors tensors = tensors_at(s, (size_t)position * 37 / BENCH_CHUNK % (INPUT_TOKENS - BENCH_CHUNK));
    const qsa_output none = {0};
    const qsa_entry entry = {.seq = s->history, .position = position, .tokens = n};
    qsa_step *step;
    if (!bench_good(qsa_step_begin(s->cache, &entry, 1, &step)))
        return false;
    for (uint32_t layer = 0; layer < s->config.layers; layer++)
        if (!bench_good(qsa_threads_layer(threads, step, layer, &tensors, &none))) {
            qsa_step_abort(step);
            return false;
        }
    return bench_good(qsa_step_commit(step, NULL));
}

bool bench_state_fill(bench_state *s, qsa_threads *threads, uint32_t tokens)
{
    for (uint32_t n, position = 0; position < tokens; position += n) {
        n = tokens - position < BENCH_CHUNK ? tokens - position : BENCH_CHUNK;
        if (!store(s, threads, position, n))
            return false;
    }
    return true;
}

bool bench_state_fork(bench_state *s, uint32_t depth, qsa_seq *out_seq)
{
    return bench_good(depth == 0 ? qsa_seq_open(s->cache, out_seq)
                                 : qsa_seq_fork(s->cache, s->history, depth, out_seq));
}
