/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/feed.h"

#include "console/device_option.h"
#include "console/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool has_projections(const golden_case *c)
{
    return c->has_attention && !c->final_qkv;
}

qsa_config feed_config(const golden_case *c, qsa_norm_weights *norms)
{
    qsa_config config = c->config;
    *norms = (qsa_norm_weights){.index_q = c->index_q_norm, .index_k = c->index_k_norm};
    if (has_projections(c)) {
        norms->q = c->q_norm;
        norms->k = c->k_norm;
    } else {
        config.q_heads = config.kv_heads = 1;
        config.head_dim = config.rotary_dim;
    }
    config.norms = norms;
    config.device = device_in_use();
    config.capacity_tokens = c->n + UINT64_C(3) * QSA_PAGE_TOKENS;
    config.max_step_tokens = c->n < QSA_MAX_STEP_TOKENS ? c->n : QSA_MAX_STEP_TOKENS;
    return config;
}

static qsa_status open_sequence(feed_run *run, const feed_options *options)
{
    const golden_case *c = run->c;
    qsa_status status = qsa_cache_create(&run->config, &run->cache);
    if (status == QSA_OK)
        status = qsa_seq_open(run->cache, &run->seq);
    if (status == QSA_OK && c->frame != 0)
        status = qsa_seq_shift(run->cache, run->seq, c->frame);
    if (status == QSA_OK && c->window != 0 && !options->no_window)
        status = qsa_seq_window(run->cache, run->seq, c->window);
    return status;
}

qsa_status feed_open(feed_run *run, const golden_case *c, const feed_options *options)
{
    *run = (feed_run){.c = c};
    run->config = feed_config(c, &run->norms);
    if (options->sequences != 0) {
        run->config.max_sequences = options->sequences;
        run->config.capacity_tokens *= options->sequences;
    }
    run->groups_size = c->config.budget / c->config.ratio;
    run->output_size = run->config.q_heads * run->config.head_dim;
    run->groups = memory_new((size_t)c->n * run->groups_size, sizeof *run->groups);
    run->n_groups = memory_new(c->n, sizeof *run->n_groups);
    run->output = memory_new((size_t)c->n * run->output_size, sizeof *run->output);
    return open_sequence(run, options);
}

void feed_close(feed_run *run)
{
    qsa_cache_destroy(run->cache);
    free(run->groups);
    free(run->n_groups);
    free(run->output);
    *run = (feed_run){0};
}

/* ---- one step ---- */

/* The step's tensors, copied from its pieces, tokens in order. */
typedef struct step_memory {
    uint32_t tokens;
    size_t q, kv, index_q, raw_key; /* numbers per token */
    float *numbers;                 /* of all five tensors below */
    float *q_rows, *k_rows, *v_rows, *index_q_rows, *raw_key_rows;
    float *output;
    qsa_entry *entries;
    qsa_tensors tensors;
} step_memory;

static void gather(const float *from, uint32_t first, uint32_t n, size_t size, float *to)
{
    if (from)
        memcpy(to, from + first * size, n * size * sizeof *to);
}

static void plan_tensors(step_memory *m, const qsa_config *config)
{
    m->q = (size_t)config->q_heads * config->head_dim;
    m->kv = (size_t)config->kv_heads * config->head_dim;
    m->index_q = (size_t)config->index_heads * config->index_dim;
    m->raw_key = config->index_dim;
    const size_t n = m->tokens;
    m->numbers = memory_new(n * (m->q + 2 * m->kv + m->index_q + m->raw_key), sizeof(float));
    m->output = memory_new(n * m->q, sizeof(float));
    m->q_rows = m->numbers;
    m->k_rows = m->q_rows + n * m->q;
    m->v_rows = m->k_rows + n * m->kv;
    m->index_q_rows = m->v_rows + n * m->kv;
    m->raw_key_rows = m->index_q_rows + n * m->index_q;
    m->tensors = (qsa_tensors){.q = {m->q_rows, m->q, config->head_dim},
                               .k = {m->k_rows, m->kv, config->head_dim},
                               .v = {m->v_rows, m->kv, config->head_dim},
                               .index_q = {m->index_q_rows, m->index_q, config->index_dim},
                               .raw_key = {m->raw_key_rows, m->raw_key, 0}};
}

static void gather_piece(step_memory *m, const feed_piece *p, uint32_t at)
{
    const golden_case *c = p->run->c;
    const bool attends = has_projections(c);
    gather(attends ? c->q : NULL, p->first, p->n, m->q, m->q_rows + at * m->q);
    gather(attends ? c->k : NULL, p->first, p->n, m->kv, m->k_rows + at * m->kv);
    gather(attends ? c->v : NULL, p->first, p->n, m->kv, m->v_rows + at * m->kv);
    gather(c->index_q, p->first, p->n, m->index_q, m->index_q_rows + at * m->index_q);
    gather(c->raw_key, p->first, p->n, m->raw_key, m->raw_key_rows + at * m->raw_key);
}

static void gather_step(step_memory *m, const feed_piece *pieces, size_t n_pieces)
{
    *m = (step_memory){.entries = memory_new(n_pieces, sizeof *m->entries)};
    for (size_t i = 0; i < n_pieces; i++)
        m->tokens += pieces[i].n;
    plan_tensors(m, &pieces[0].run->config);
    uint32_t at = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        const feed_piece *p = &pieces[i];
        const golden_case *c = p->run->c;
        assert(p->n > 0 && p->first + p->n <= c->n);
        m->entries[i] = (qsa_entry){.seq = p->seq, .position = c->anchor + p->first, .tokens = p->n};
        if (c->triples)
            m->entries[i].triples = (const qsa_triple *)(c->triples + 3 * (size_t)p->first);
        gather_piece(m, p, at);
        at += p->n;
    }
}

static qsa_status run_layer(qsa_step *step, const step_memory *m, uint32_t parts, bool wants_output)
{
    const qsa_output out = {wants_output ? m->output : NULL, m->q, m->tensors.q.head_stride};
    qsa_status status = qsa_layer_begin(step, 0, &m->tensors, &out);
    for (uint32_t phase = 0; status == QSA_OK && phase < QSA_PHASES; phase++)
        for (uint32_t part = 0; status == QSA_OK && part < parts; part++)
            status = qsa_layer_phase(step, phase, parts - 1 - part, parts); /* in reverse: any order is allowed */
    return status;
}

/* Groups that the sequence's window has already dropped. */
static uint32_t groups_gone(const qsa_cache *cache, const feed_piece *p)
{
    qsa_seq_info info;
    if (qsa_seq_query(cache, p->seq, &info) != QSA_OK || info.tokens == 0)
        return 0;
    return (uint32_t)(info.anchor - p->run->c->anchor) / p->run->c->config.ratio;
}

static qsa_status keep_results(const qsa_cache *cache, const qsa_step *step, const step_memory *m,
                               const feed_piece *pieces, size_t n_pieces)
{
    uint32_t at = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        feed_run *run = pieces[i].run;
        const uint32_t gone = groups_gone(cache, &pieces[i]);
        for (uint32_t t = pieces[i].first; t < pieces[i].first + pieces[i].n; t++, at++) {
            uint32_t *groups = run->groups + (size_t)t * run->groups_size;
            qsa_status status = qsa_step_selection(step, at, groups, &run->n_groups[t]);
            if (status != QSA_OK)
                return status;
            for (uint32_t g = 0; g < run->n_groups[t]; g++)
                groups[g] += gone;
            memcpy(run->output + (size_t)t * run->output_size, m->output + at * m->q, m->q * sizeof *m->output);
        }
    }
    return QSA_OK;
}

qsa_status feed_step(qsa_cache *cache, const feed_piece *pieces, size_t n_pieces, uint32_t parts, bool wants_output)
{
    assert(n_pieces > 0 && parts > 0);
    step_memory m;
    gather_step(&m, pieces, n_pieces);
    qsa_step *step;
    qsa_status status = qsa_step_begin(cache, m.entries, n_pieces, &step);
    if (status == QSA_OK) {
        status = run_layer(step, &m, parts, wants_output);
        if (status == QSA_OK && wants_output)
            status = keep_results(cache, step, &m, pieces, n_pieces);
        if (status == QSA_OK)
            status = qsa_step_commit(step, NULL);
        else
            qsa_step_abort(step);
    }
    free(m.entries);
    free(m.numbers);
    free(m.output);
    return status;
}

/* ---- a whole case ---- */

qsa_status feed_tokens(feed_run *run, uint32_t first, uint32_t end, const feed_options *options)
{
    assert(first <= end && end <= run->c->n);
    const uint32_t most = run->config.max_step_tokens;
    const uint32_t chunk = options->chunk == 0 || options->chunk > most ? most : options->chunk;
    qsa_status status = QSA_OK;
    while (status == QSA_OK && first < end) {
        const bool wants_output = first >= options->first_output;
        uint32_t stop = wants_output || options->first_output > end ? end : options->first_output;
        const uint32_t n = stop - first < chunk ? stop - first : chunk;
        const feed_piece piece = {run, run->seq, first, n};
        status = feed_step(run->cache, &piece, 1, options->parts ? options->parts : 1, wants_output);
        first += n;
    }
    return status;
}

qsa_status feed_all(feed_run *run, const golden_case *c, const feed_options *options)
{
    qsa_status status = feed_open(run, c, options);
    return status == QSA_OK ? feed_tokens(run, 0, c->n, options) : status;
}
