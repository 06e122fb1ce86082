/* SPDX-License-Identifier: Apache-2.0 */
/* One forward pass of any mix of sessions: check, prepare, compute within a step of libqsa, commit, publish. */
#include "base/error.h"
#include "model/ngram.h"
#include "session/session.h"

#include <math.h>
#include <string.h>

/* ---- checks ---- */

static qsa_status check_item(const qsa_context *c, const qsa_batch_item *item, size_t index)
{
    if (item->session == NULL || item->session->context != c)
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch: not a session of this context", index);
    if (item->n == 0 || item->tokens == NULL)
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch has no tokens", index);
    if (item->logits > item->n || (item->logits > 0 && item->out_logits == NULL)) {
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch wants the logits of %u tokens, has %u tokens%s",
                           index, item->logits, item->n, item->out_logits == NULL ? " and nowhere to put them" : "");
    }
    if (item->session->batch == c->batches)
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch names a session that it has already", index);
    const size_t stranger = context_find_stranger(c, item->tokens, item->n);
    if (stranger < item->n) {
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch: token %zu is %d, but the vocabulary has %u tokens",
                           index, stranger, (int)item->tokens[stranger], c->model->shape.vocabulary);
    }
    return QSA_OK;
}

static qsa_status check_items(qsa_context *c, const qsa_batch_item *items, size_t n, uint32_t *out_tokens)
{
    if (items == NULL || n == 0)
        return engine_fail(QSA_E_ARGUMENT, "a batch without items");
    uint64_t tokens = 0;
    c->batches++;
    for (size_t i = 0; i < n; i++) {
        ENGINE_TRY(check_item(c, &items[i], i));
        items[i].session->batch = c->batches; /* only a mark, so a failed batch may leave it */
        tokens += items[i].n;
    }
    if (tokens > c->options.chunk) {
        return engine_fail(QSA_E_LIMIT, "a batch of %llu tokens, at most %u go into one", (unsigned long long)tokens,
                           c->options.chunk);
    }
    ENGINE_TRY(context_check_room(c, tokens));
    *out_tokens = (uint32_t)tokens;
    return QSA_OK;
}

/* ---- layout of the batch ---- */

/* The k-th token before token t of the item: from the item, or from the session before it; EOS before the start. */
static int32_t token_before(const qsa_batch_item *item, uint32_t t, uint32_t k)
{
    const qsa_session *s = item->session;
    if (k <= t)
        return item->tokens[t - k];
    const uint64_t back = k - t; /* counted from the session's end */
    return back <= s->now->tokens ? s->ids[s->now->tokens - back] : s->context->model->shape.ngram.eos;
}

static void lay_ngrams(const qsa_context *c, const qsa_batch_item *item, uint32_t first)
{
    const ngram_shape *g = &c->model->shape.ngram;
    for (uint32_t t = 0; g->heads > 0 && t < item->n; t++) {
        int32_t history[MODEL_MAX_NGRAM];
        for (uint32_t k = 0; k < g->size; k++)
            history[k] = token_before(item, t, k);
        ngram_rows(g, history, c->ngram_rows + (size_t)(first + t) * g->heads);
    }
}

/* Assigns the batch's columns in the order of the items; returns how many logits are wanted. */
static uint32_t lay_out(qsa_context *c, const qsa_batch_item *items, size_t n)
{
    uint32_t first = 0, wanted = 0;
    for (size_t i = 0; i < n; i++) {
        const qsa_session *s = items[i].session;
        c->segments[i] = (batch_segment){first, items[i].n, s->now->floats, s->spare->floats};
        c->entries[i] = (qsa_entry){s->seq, s->anchor + (int64_t)s->now->tokens, items[i].n, NULL};
        memcpy(c->ids + first, items[i].tokens, items[i].n * sizeof *c->ids);
        lay_ngrams(c, &items[i], first);
        for (uint32_t t = items[i].n - items[i].logits; t < items[i].n; t++)
            c->wanted[wanted++] = first + t;
        first += items[i].n;
    }
    return wanted;
}

/* ---- computing ---- */

static qsa_status check_logits(const float *logits, uint32_t wanted, uint32_t vocabulary)
{
    for (size_t i = 0; i < (size_t)wanted * vocabulary; i++) {
        if (!isfinite(logits[i])) {
            return engine_fail(QSA_E_NONFINITE, "logits of wanted token %zu: element %zu is not finite", i / vocabulary,
                               i % vocabulary);
        }
    }
    return QSA_OK;
}

/* Runs the prepared batch within a step: either everything is committed or nothing has changed. */
static qsa_status run_step(qsa_context *c, size_t n, uint32_t wanted, const float **out_logits)
{
    qsa_step *step = NULL;
    ENGINE_TRY_LIBRARY(qsa_step_begin(c->cache, c->entries, n, &step));
    qsa_status status = forward_run(c->pass, step, out_logits);
    if (status == QSA_E_NONFINITE) {
        /* Aborts the step and returns the lowest of the errors, whichever thread came first. */
        status = qsa_step_commit(step, NULL);
        return engine_fail(status, "QSA %s", qsa_error_detail());
    }
    if (status == QSA_OK)
        status = check_logits(*out_logits, wanted, c->model->shape.vocabulary);
    if (status != QSA_OK) {
        qsa_step_abort(step);
        return status;
    }
    ENGINE_TRY_LIBRARY(qsa_step_commit(step, NULL));
    return QSA_OK;
}

/* ---- after the commit: nothing here can fail ---- */

/* logits: of the item, [item->logits][vocabulary]. */
static void publish(qsa_context *c, const qsa_batch_item *item, const float *logits)
{
    const size_t vocabulary = c->model->shape.vocabulary;
    const uint64_t before = item->session->now->tokens, n = item->n;
    c->visible_tokens += forward_query_layers(c->pass) * (n * before + n * (n + 1) / 2);
    if (item->logits > 0)
        memcpy(item->out_logits, logits, item->logits * vocabulary * sizeof *logits);
    const float *last = item->logits == 0 ? NULL : logits + (item->logits - 1) * vocabulary;
    session_advance(item->session, item->tokens, n, last);
}

static void publish_all(qsa_context *c, const qsa_batch_item *items, size_t n, const float *logits)
{
    for (size_t i = 0; i < n; i++) {
        publish(c, &items[i], logits);
        logits += (size_t)items[i].logits * c->model->shape.vocabulary;
    }
}

static qsa_status reserve_all(const qsa_batch_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ENGINE_TRY(session_reserve(items[i].session, items[i].session->now->tokens + items[i].n));
    return QSA_OK;
}

/* The context's tap, called as a callback. It may take itself away. */
static void call_tap(void *user, uint32_t model_layer, uint32_t tokens, const qsa_tensors *tensors,
                     const qsa_output *output, const qsa_step *step)
{
    qsa_context *c = user;
    if (c->tap.layer == NULL)
        return;
    c->calls_host = true;
    c->tap.layer(c->tap.user, model_layer, tokens, tensors, output, step);
    c->calls_host = false;
}

static qsa_status run_batch(qsa_context *context, const qsa_batch_item *items, size_t n)
{
    uint32_t tokens = 0;
    ENGINE_TRY(check_items(context, items, n, &tokens));
    ENGINE_TRY(reserve_all(items, n));
    const uint32_t wanted = lay_out(context, items, n);
    const qsa_tap tap = {call_tap, context};
    const forward_batch batch = {
        .layout = {context->segments, n},
        .tokens = tokens,
        .ids = context->ids,
        .ngram_rows = context->ngram_rows,
        .wanted = context->wanted,
        .wanted_count = wanted,
        .tap = context->tap.layer == NULL ? NULL : &tap,
    };
    ENGINE_TRY(forward_prepare(context->pass, &batch));
    const float *logits = NULL;
    ENGINE_TRY(run_step(context, n, wanted, &logits));
    publish_all(context, items, n, logits);
    part_clock_count(context->clock, tokens);
    return QSA_OK;
}

qsa_status qsa_batch_run(qsa_context *context, const qsa_batch_item *items, size_t n)
{
    if (context == NULL)
        return engine_fail(QSA_E_ARGUMENT, "a batch without context");
    ENGINE_TRY(context_idle(context));
    part_clock_start(context->clock);
    const qsa_status status = run_batch(context, items, n);
    part_clock_stop(context->clock);
    return status;
}
