/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "model/state.h"
#include "session/context.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static size_t state_bytes(const qsa_session *s)
{
    return state_floats(&s->context->model->shape) * sizeof(float);
}

static float *new_state(qsa_session *s)
{
    float *floats = calloc(1, state_bytes(s) + sizeof *floats); /* never of size 0 */
    if (floats != NULL) {
        s->context->state_bytes += state_bytes(s);
    }
    return floats;
}

static void free_state(qsa_session *s, float *floats)
{
    if (floats != NULL) {
        s->context->state_bytes -= state_bytes(s);
    }
    free(floats);
}

static void free_session(qsa_session *s)
{
    free_state(s, s->now.floats);
    free_state(s, s->mark.floats);
    free_state(s, s->spare);
    free(s);
}

static void link_session(qsa_session *s)
{
    s->next = s->context->sessions;
    if (s->next != NULL) {
        s->next->previous = s;
    }
    s->context->sessions = s;
}

static void unlink_session(qsa_session *s)
{
    if (s->next != NULL) {
        s->next->previous = s->previous;
    }
    if (s->previous != NULL) {
        s->previous->next = s->next;
    } else {
        s->context->sessions = s->next;
    }
}

qsa_status qsa_session_open(qsa_context *context, qsa_session **out_session)
{
    if (context == NULL || out_session == NULL) {
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_open: context or out_session is NULL");
    }
    qsa_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return engine_fail(QSA_E_MEMORY, "no memory for a session");
    }
    s->context = context;
    s->now.floats = new_state(s);
    s->spare = new_state(s);
    if (s->now.floats == NULL || s->spare == NULL) {
        const size_t bytes = 2 * state_bytes(s);
        free_session(s);
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a session's state", bytes);
    }
    for (size_t i = 0; i < MODEL_MAX_NGRAM; i++) {
        s->now.history[i] = context->model->shape.ngram.eos;
    }
    const qsa_status status = qsa_seq_open(context->cache, &s->seq);
    if (status != QSA_OK) {
        free_session(s);
        return fail_as_library(status);
    }
    link_session(s);
    *out_session = s;
    return QSA_OK;
}

void qsa_session_close(qsa_session *session)
{
    if (session == NULL) {
        return;
    }
    (void)qsa_seq_close(session->context->cache, session->seq);
    session->context->tokens -= session->now.tokens;
    unlink_session(session);
    free_session(session);
}

uint64_t qsa_session_tokens(const qsa_session *session)
{
    return session->now.tokens;
}

qsa_status qsa_session_set_anchor(qsa_session *session, int64_t position)
{
    if (session->fed) {
        return engine_fail(QSA_E_ORDER, "the anchor is decided: the session begins at %lld",
                           (long long)session->anchor);
    }
    if (position < 0 || position >= QSA_MAX_POSITION) {
        return engine_fail(QSA_E_LIMIT, "anchor %lld is not a position from 0 to below 2^31", (long long)position);
    }
    session->anchor = position;
    return QSA_OK;
}

/* ---- feeding ---- */

static qsa_status feed_chunk(qsa_session *s, const int32_t *tokens, uint32_t n, float *out_logits)
{
    const qsa_batch_item item = {s, tokens, n, out_logits != NULL, out_logits};
    return qsa_batch_run(s->context, &item, 1);
}

qsa_status qsa_session_feed(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            void (*progress)(void *user, size_t fed), void *user)
{
    if (session == NULL || (tokens == NULL && n > 0)) {
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_feed: session or tokens is NULL");
    }
    if (n == 0 && out_logits != NULL) {
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_feed: no token whose logits could be computed");
    }
    const size_t chunk = session->context->options.chunk;
    for (size_t fed = 0; fed < n;) {
        const size_t now = n - fed < chunk ? n - fed : chunk;
        const bool is_last = fed + now == n;
        const qsa_status status = feed_chunk(session, tokens + fed, (uint32_t)now, is_last ? out_logits : NULL);
        if (status != QSA_OK) {
            return status;
        }
        fed += now;
        if (progress != NULL) {
            progress(user, fed);
        }
    }
    return QSA_OK;
}

/* ---- a place to return to ---- */

static void copy_state(qsa_session *s, recurrent_state *to, const recurrent_state *from)
{
    memcpy(to->floats, from->floats, state_bytes(s));
    memcpy(to->history, from->history, sizeof to->history);
    to->tokens = from->tokens;
}

qsa_status qsa_session_mark(qsa_session *session)
{
    if (session->mark.floats == NULL) {
        session->mark.floats = new_state(session);
    }
    if (session->mark.floats == NULL) {
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a mark", state_bytes(session));
    }
    copy_state(session, &session->mark, &session->now);
    session->marked = true;
    return QSA_OK;
}

qsa_status qsa_session_return(qsa_session *session)
{
    if (!session->marked) {
        return engine_fail(QSA_E_ORDER, "the session has no mark to return to");
    }
    if (session->fed) {
        const int64_t to = session->anchor + (int64_t)session->mark.tokens;
        const qsa_status status = qsa_seq_rewind(session->context->cache, session->seq, to);
        if (status != QSA_OK) {
            return fail_as_library(status);
        }
    }
    session->context->tokens -= session->now.tokens - session->mark.tokens;
    copy_state(session, &session->now, &session->mark);
    return QSA_OK;
}
