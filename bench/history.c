/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/history.h"

#include "bench/machine.h"
#include "bench/status.h"
#include "console/device_option.h"
#include "console/memory.h"
#include "console/values.h"

#include <assert.h>
#include <stdlib.h>

enum { INPUT_TOKENS = 8 * BENCH_CHUNK, INPUT_STREAM = 200 };

static const float SPREAD = 1.7320508f; /* makes the standard deviation of value_at() 1 */

/* ---- opening ---- */

static void make_inputs(bench_history *h)
{
    const qsa_config *c = &h->config;
    const size_t sizes[5] = {(size_t)c->q_heads * c->head_dim, (size_t)c->kv_heads * c->head_dim,
                             (size_t)c->kv_heads * c->head_dim, (size_t)c->index_heads * c->index_dim, c->index_dim};
    for (int i = 0; i < 5; i++) {
        const size_t n = INPUT_TOKENS * sizes[i];
        h->per_token[i] = sizes[i];
        h->inputs[i] = memory_new(n, sizeof(float));
        for (size_t k = 0; k < n; k++)
            h->inputs[i][k] = value_at(INPUT_STREAM + (uint64_t)i, k) * SPREAD;
    }
}

bool bench_history_open(bench_history *h, const bench_options *o, const qsa_allocator *allocator)
{
    assert(o->n_depths > 0 && o->n_depths <= BENCH_MAX_DEPTHS);
    *h = (bench_history){0};
    qsa_config *c = &h->config;
    qsa_config_init(c);
    c->layers = o->layers;
    c->kv_type = o->kv;
    c->capacity_tokens = (uint64_t)o->depths[o->n_depths - 1] + BENCH_CHUNK;
    c->max_sequences = 2;
    c->max_step_tokens = BENCH_CHUNK;
    c->max_parts = o->threads;
    c->device = device_in_use();
    if (!bench_ok(qsa_plan_memory(c, &h->plan)) || !machine_has_memory(h->plan.total_bytes))
        return false;
    c->allocator = allocator;
    const bool is_open = bench_ok(qsa_cache_create(c, &h->cache)) && bench_ok(qsa_seq_open(h->cache, &h->seq));
    c->allocator = NULL;
    if (is_open)
        make_inputs(h);
    return is_open;
}

void bench_history_close(bench_history *h)
{
    for (int i = 0; i < 5; i++)
        free(h->inputs[i]);
    qsa_cache_destroy(h->cache);
    *h = (bench_history){0};
}

/* ---- inputs ---- */

static qsa_tensors tensors_at(const bench_history *h, size_t token)
{
    qsa_strided at[5];
    assert(token + BENCH_CHUNK <= INPUT_TOKENS);
    for (int i = 0; i < 5; i++)
        at[i] = (qsa_strided){h->inputs[i] + token * h->per_token[i], h->per_token[i], 0};
    at[0].head_stride = at[1].head_stride = at[2].head_stride = h->config.head_dim;
    at[3].head_stride = h->config.index_dim;
    return (qsa_tensors){at[0], at[1], at[2], at[3], at[4]};
}

qsa_tensors bench_history_tensors(const bench_history *h)
{
    return tensors_at(h, 0);
}

/* ---- filling ---- */

/* The inputs of a chunk begin at a place of its own. */
static bool append(bench_history *h, qsa_threads *threads, uint32_t position, uint32_t n)
{
    const qsa_tensors tensors = tensors_at(h, (size_t)position * 37 / BENCH_CHUNK % (INPUT_TOKENS - BENCH_CHUNK));
    const qsa_output none = {0};
    const qsa_entry entry = {.seq = h->seq, .position = position, .tokens = n};
    qsa_step *step;
    if (!bench_ok(qsa_step_begin(h->cache, &entry, 1, &step)))
        return false;
    for (uint32_t layer = 0; layer < h->config.layers; layer++)
        if (!bench_ok(qsa_threads_layer(threads, step, layer, &tensors, &none))) {
            qsa_step_abort(step);
            return false;
        }
    return bench_ok(qsa_step_commit(step, NULL));
}

bool bench_history_fill(bench_history *h, qsa_threads *threads, uint32_t tokens)
{
    for (uint32_t n, position = 0; position < tokens; position += n) {
        n = tokens - position < BENCH_CHUNK ? tokens - position : BENCH_CHUNK;
        if (!append(h, threads, position, n))
            return false;
    }
    return true;
}

bool bench_history_fork(bench_history *h, uint32_t depth, qsa_seq *out_seq)
{
    return bench_ok(depth == 0 ? qsa_seq_open(h->cache, out_seq) : qsa_seq_fork(h->cache, h->seq, depth, out_seq));
}
