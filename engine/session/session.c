/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "session/context.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static void free_ids(qsa_session *s)
{
    s->context->state_bytes -= s->ids_capacity * sizeof *s->ids;
    free(s->ids);
}

void session_free(qsa_session *s)
{
    places_forget(s->context, &s->places);
    state_release(s->context, s->now);
    state_release(s->context, s->spare);
    free_ids(s);
    free(s);
}

void session_link(qsa_session *s)
{
    s->next = s->context->sessions;
    if (s->next != NULL)
        s->next->previous = s;
    s->context->sessions = s;
    s->context->session_count++;
    s->context->tokens += s->now->tokens;
}

static void unlink_session(qsa_session *s)
{
    if (s->next != NULL)
        s->next->previous = s->previous;
    if (s->previous != NULL)
        s->previous->next = s->next;
    else
        s->context->sessions = s->next;
    s->context->session_count--;
    s->context->tokens -= s->now->tokens;
}

qsa_session *session_allocate(qsa_context *c, qsa_status *out_status)
{
    if (c->session_count == c->options.sessions) {
        *out_status = engine_fail(QSA_E_FULL, "the context's %u sessions are all open", c->options.sessions);
        return NULL;
    }
    qsa_session *s = calloc(1, sizeof *s);
    if (s == NULL) {
        *out_status = engine_fail(QSA_E_MEMORY, "no memory for a session");
        return NULL;
    }
    s->context = c;
    s->now = state_new(c);
    s->spare = state_new(c);
    if (s->now == NULL || s->spare == NULL) {
        session_free(s);
        *out_status = engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a session's state", 2 * state_size(c));
        return NULL;
    }
    return s;
}

qsa_status qsa_session_open(qsa_context *context, qsa_session **out_session)
{
    if (context == NULL || out_session == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_open: context or out_session is NULL");
    qsa_status status = QSA_OK;
    qsa_session *s = session_allocate(context, &status);
    if (s == NULL)
        return status;
    status = qsa_seq_open(context->cache, &s->seq);
    if (status != QSA_OK) {
        session_free(s);
        return engine_fail_as_library(status);
    }
    session_link(s);
    *out_session = s;
    return QSA_OK;
}

void qsa_session_close(qsa_session *session)
{
    if (session == NULL)
        return;
    (void)qsa_seq_close(session->context->cache, session->seq);
    unlink_session(session);
    session_free(session);
}

uint64_t qsa_session_tokens(const qsa_session *session)
{
    return session->now->tokens;
}

const int32_t *qsa_session_list(const qsa_session *session)
{
    return session->ids;
}

qsa_status qsa_session_set_anchor(qsa_session *session, int64_t position)
{
    if (session->fed) {
        return engine_fail(QSA_E_ORDER, "the anchor is decided: the session begins at %lld",
                           (long long)session->anchor);
    }
    if (position < 0 || position >= QSA_MAX_POSITION)
        return engine_fail(QSA_E_LIMIT, "anchor %lld is not a position from 0 to below 2^31", (long long)position);
    session->anchor = position;
    return QSA_OK;
}

/* ---- feeding ---- */

qsa_status session_reserve(qsa_session *s, uint64_t tokens)
{
    if (tokens <= s->ids_capacity)
        return QSA_OK;
    uint64_t capacity = s->ids_capacity + s->ids_capacity / 2;
    capacity = capacity < tokens ? tokens : capacity;
    int32_t *ids = realloc(s->ids, capacity * sizeof *ids);
    if (ids == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a list of %llu tokens", (unsigned long long)capacity);
    s->context->state_bytes += (capacity - s->ids_capacity) * sizeof *ids;
    s->ids = ids;
    s->ids_capacity = capacity;
    return QSA_OK;
}

void session_keep_place(qsa_session *s)
{
    (void)places_keep(s->context, &s->places, s->now); /* without memory: costs time later, no more */
    places_thin(s->context, &s->places);
}

static qsa_status feed_chunk(qsa_session *s, const int32_t *tokens, uint32_t n, float *out_logits)
{
    const qsa_batch_item item = {s, tokens, n, out_logits != NULL, out_logits};
    return qsa_batch_run(s->context, &item, 1);
}

qsa_status session_feed_after(qsa_session *s, const int32_t *tokens, size_t n, float *out_logits, size_t before,
                              void (*progress)(void *user, size_t fed), void *user)
{
    const size_t chunk = s->context->options.chunk;
    for (size_t fed = 0; fed < n;) {
        const size_t now = n - fed < chunk ? n - fed : chunk;
        const bool is_last = fed + now == n;
        ENGINE_TRY(feed_chunk(s, tokens + fed, (uint32_t)now, is_last ? out_logits : NULL));
        fed += now;
        if (progress != NULL)
            progress(user, before + fed);
    }
    if (n > 1)
        session_keep_place(s);
    return QSA_OK;
}

qsa_status qsa_session_feed(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            void (*progress)(void *user, size_t fed), void *user)
{
    if (session == NULL || (tokens == NULL && n > 0))
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_feed: session or tokens is NULL");
    if (n == 0 && out_logits != NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_feed: no token whose logits could be computed");
    return session_feed_after(session, tokens, n, out_logits, 0, progress, user);
}
