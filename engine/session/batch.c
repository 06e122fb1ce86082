/* SPDX-License-Identifier: Apache-2.0 */
/* One forward pass of any mix of sessions: check, prepare, compute within a step of libqsa, commit, publish. */
#include "base/error.h"
#include "model/ngram.h"
#include "session/context.h"

#include <math.h>
#include <string.h>

/* ---- checks ---- */

static qsa_status check_item(const qsa_context *c, const qsa_batch_item *item, size_t index)
{
    if (item->session == NULL || item->session->context != c) {
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch: not a session of this context", index);
    }
    if (item->n == 0 || item->tokens == NULL) {
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch has no tokens", index);
    }
    if (item->logits > item->n || (item->logits > 0 && item->out_logits == NULL)) {
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch wants the logits of %u tokens, has %u tokens%s",
                           index, item->logits, item->n, item->out_logits == NULL ? " and nowhere to put them" : "");
    }
    if (item->session->batch == c->batches) {
        return engine_fail(QSA_E_ARGUMENT, "item %zu of the batch names a session that it has already", index);
    }
    for (uint32_t t = 0; t < item->n; t++) {
        if (item->tokens[t] < 0 || (uint32_t)item->tokens[t] >= c->model->shape.vocabulary) {
            return engine_fail(QSA_E_ARGUMENT,
                               "item %zu of the batch: token %u is %d, but the vocabulary has %u tokens", index, t,
                               (int)item->tokens[t], c->model->shape.vocabulary);
        }
    }
    return QSA_OK;
}

static qsa_status check_items(qsa_context *c, const qsa_batch_item *items, size_t n, uint32_t *out_tokens)
{
    if (c == NULL || items == NULL || n == 0) {
        return engine_fail(QSA_E_ARGUMENT, "a batch without context or items");
    }
    uint64_t tokens = 0;
    c->batches++;
    for (size_t i = 0; i < n; i++) {
        const qsa_status status = check_item(c, &items[i], i);
        if (status != QSA_OK) {
            return status;
        }
        items[i].session->batch = c->batches;
        tokens += items[i].n;
    }
    if (tokens > c->options.chunk) {
        return engine_fail(QSA_E_LIMIT, "a batch of %llu tokens, at most %u go into one", (unsigned long long)tokens,
                           c->options.chunk);
    }
    if (c->tokens + tokens > c->options.context) {
        return engine_fail(QSA_E_FULL, "the context is full: %llu tokens stored, %llu more, room for %u",
                           (unsigned long long)c->tokens, (unsigned long long)tokens, c->options.context);
    }
    *out_tokens = (uint32_t)tokens;
    return QSA_OK;
}

/* ---- laying the batch out ---- */

/* The token k places before token t of the item; the session's history where the item has no such token. */
static int32_t token_before(const qsa_batch_item *item, uint32_t t, uint32_t k)
{
    return k <= t ? item->tokens[t - k] : item->session->now.history[k - t - 1];
}

static void lay_ngrams(const qsa_context *c, const qsa_batch_item *item, uint32_t first)
{
    const ngram_shape *g = &c->model->shape.ngram;
    for (uint32_t t = 0; g->heads > 0 && t < item->n; t++) {
        int32_t history[MODEL_MAX_NGRAM];
        for (uint32_t k = 0; k < g->size; k++) {
            history[k] = token_before(item, t, k);
        }
        ngram_rows(g, history, c->ngram_rows + (size_t)(first + t) * g->heads);
    }
}

/* Columns of the batch in the order of the items; returns how many logits are wanted. */
static uint32_t lay_out(qsa_context *c, const qsa_batch_item *items, size_t n)
{
    uint32_t first = 0, wanted = 0;
    for (size_t i = 0; i < n; i++) {
        const qsa_session *s = items[i].session;
        c->segments[i] = (batch_segment){first, items[i].n, s->now.floats, s->spare};
        c->entries[i] = (qsa_entry){s->seq, s->anchor + (int64_t)s->now.tokens, items[i].n, NULL};
        memcpy(c->ids + first, items[i].tokens, items[i].n * sizeof *c->ids);
        lay_ngrams(c, &items[i], first);
        for (uint32_t t = items[i].n - items[i].logits; t < items[i].n; t++) {
            c->wanted[wanted++] = first + t;
        }
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

/* The prepared graph within a step: either everything is committed or nothing has happened. */
static qsa_status run_step(qsa_context *c, size_t n, uint32_t wanted, const float **out_logits)
{
    qsa_step *step = NULL;
    qsa_status status = qsa_step_begin(c->cache, c->entries, n, &step);
    if (status != QSA_OK) {
        return fail_as_library(status);
    }
    status = forward_run(c->pass, step, out_logits);
    if (status == QSA_OK) {
        status = check_logits(*out_logits, wanted, c->model->shape.vocabulary);
        if (status == QSA_OK) {
            status = qsa_step_commit(step, NULL);
            return status == QSA_OK ? QSA_OK : fail_as_library(status);
        }
    } else if (status == QSA_E_NONFINITE) {
        /* Acts as abort, and tells the lowest of the errors, whichever thread was first. */
        status = qsa_step_commit(step, NULL);
        return engine_fail(status, "QSA %s", qsa_error_detail());
    }
    qsa_step_abort(step);
    return status;
}

/* ---- after the commit: nothing here can fail ---- */

static void move_on(qsa_session *s, const qsa_batch_item *item)
{
    float *old = s->now.floats;
    s->now.floats = s->spare;
    s->spare = old;
    int32_t history[MODEL_MAX_NGRAM];
    for (uint32_t k = 0; k < MODEL_MAX_NGRAM; k++) {
        history[k] = token_before(item, item->n - 1, k);
    }
    memcpy(s->now.history, history, sizeof history);
    s->now.tokens += item->n;
    s->fed = true;
    s->context->tokens += item->n;
}

static void publish(const qsa_context *c, const qsa_batch_item *items, size_t n, const float *logits)
{
    const size_t vocabulary = c->model->shape.vocabulary;
    for (size_t i = 0; i < n; i++) {
        if (items[i].logits > 0) {
            memcpy(items[i].out_logits, logits, items[i].logits * vocabulary * sizeof *logits);
            logits += items[i].logits * vocabulary;
        }
        move_on(items[i].session, &items[i]);
    }
}

qsa_status qsa_batch_run(qsa_context *context, const qsa_batch_item *items, size_t n)
{
    uint32_t tokens = 0;
    qsa_status status = check_items(context, items, n, &tokens);
    if (status != QSA_OK) {
        return status;
    }
    const uint32_t wanted = lay_out(context, items, n);
    const forward_batch batch = {
        .segments = context->segments,
        .segment_count = n,
        .tokens = tokens,
        .ids = context->ids,
        .ngram_rows = context->ngram_rows,
        .wanted = context->wanted,
        .wanted_count = wanted,
        .tap = context->tap.layer == NULL ? NULL : &context->tap,
    };
    status = forward_prepare(context->pass, &batch);
    const float *logits = NULL;
    if (status == QSA_OK) {
        status = run_step(context, n, wanted, &logits);
    }
    if (status == QSA_OK) {
        publish(context, items, n, logits);
    }
    return status;
}
