/* SPDX-License-Identifier: Apache-2.0 */
#include "session/context.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static qsa_status create_cache(qsa_context *c)
{
    const model_shape *s = &c->model->shape;
    qsa_norm_weights *norms = calloc(s->qsa_layers, sizeof *norms);
    if (norms == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a context");
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->layers; i++)
        if (s->kinds[i] == LAYER_QSA)
            norms[n++] = c->model->weights.layers[i].attention.norms;
    c->config = plan_cache_config(c->model, &c->options);
    qsa_config config = c->config;
    config.norms = norms;
    const qsa_status status = qsa_cache_create(&config, &c->cache);
    free(norms);
    ENGINE_TRY_LIBRARY(status);
    return QSA_OK;
}

static qsa_status allocate_batch(qsa_context *c)
{
    const size_t chunk = c->options.chunk, heads = c->model->shape.ngram.heads;
    c->entries = calloc(c->options.sessions, sizeof *c->entries);
    c->segments = calloc(c->options.sessions, sizeof *c->segments);
    c->ids = calloc(chunk, sizeof *c->ids);
    c->ngram_rows = calloc(chunk * heads + 1, sizeof *c->ngram_rows);
    c->wanted = calloc(chunk, sizeof *c->wanted);
    if (c->entries == NULL || c->segments == NULL || c->ids == NULL || c->ngram_rows == NULL || c->wanted == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a batch of %zu tokens", chunk);
    return QSA_OK;
}

/* Fills in a zeroed context; after a failure context_free frees what was made. */
static qsa_status create_parts(qsa_context *c, const qsa_model *model, const qsa_context_options *options)
{
    c->model = model;
    ENGINE_TRY(plan_options(model, options, &c->options));
    ENGINE_TRY(plan_check(model, &c->options));
    ENGINE_TRY(create_cache(c));
    ENGINE_TRY(allocate_batch(c));
    c->clock = c->options.profile ? &c->own_clock : NULL;
    return forward_create(model, c->options.chunk, c->options.threads, c->clock, &c->pass);
}

qsa_status qsa_context_create(const qsa_model *model, const qsa_context_options *options, qsa_context **out_context)
{
    if (model == NULL || out_context == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_context_create: model or out_context is NULL");
    if (options != NULL)
        ENGINE_TRY(engine_check_size("qsa_context_options", options->size_bytes, sizeof *options));
    qsa_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a context");
    const qsa_status status = create_parts(c, model, options);
    if (status != QSA_OK) {
        context_free(c);
        return status;
    }
    *out_context = c;
    return QSA_OK;
}

void context_free(qsa_context *c)
{
    assert(c->sessions == NULL);
    forward_destroy(c->pass);
    qsa_cache_destroy(c->cache);
    free(c->entries);
    free(c->segments);
    free(c->ids);
    free(c->ngram_rows);
    free(c->wanted);
    free(c);
}

/* ---- checks for sessions ---- */

qsa_status context_idle(const qsa_context *c)
{
    if (c->calls_host)
        return engine_fail(QSA_E_BUSY, "the context is calling the host (progress, tap): not from inside a callback");
    return QSA_OK;
}

qsa_status context_check_room(const qsa_context *c, uint64_t tokens)
{
    if (tokens <= c->options.context - c->tokens)
        return QSA_OK;
    return engine_fail(QSA_E_FULL, "the context is full: %llu tokens stored, %llu more, room for %u",
                       (unsigned long long)c->tokens, (unsigned long long)tokens, c->options.context);
}

size_t context_find_stranger(const qsa_context *c, const int32_t *tokens, size_t n)
{
    const uint32_t vocabulary = c->model->shape.vocabulary;
    size_t i = 0;
    while (i < n && tokens[i] >= 0 && (uint32_t)tokens[i] < vocabulary)
        i++;
    return i;
}

/* ---- information ---- */

void qsa_context_get_stats(const qsa_context *context, qsa_context_stats *out_stats)
{
    memset(out_stats, 0, sizeof *out_stats);
    (void)qsa_cache_counters(context->cache, &out_stats->counters);
    (void)qsa_plan_memory(&context->config, &out_stats->plan);
    out_stats->state_bytes = context->state_bytes;
    out_stats->visible_tokens = context->visible_tokens;
    out_stats->compute_bytes = forward_bytes(context->pass);
    out_stats->chunk = context->options.chunk;
    out_stats->threads = forward_threads(context->options.threads);
    out_stats->isa = qsa_cache_isa(context->cache);
}

void qsa_context_get_profile(const qsa_context *context, qsa_context_profile *out_profile)
{
    *out_profile = context->own_clock.profile;
}

void qsa_context_set_tap(qsa_context *context, const qsa_tap *tap)
{
    context->tap = tap == NULL ? (qsa_tap){0} : *tap;
}
