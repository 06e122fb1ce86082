/* SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include "base/error.h"
#include "model/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

void session_free(qsa_session *s)
{
    checkpoints_drop_all(s->context, &s->checkpoints);
    state_release(s->context, s->now);
    state_release(s->context, s->spare);
    s->context->state_bytes -= s->ids_capacity * sizeof *s->ids;
    free(s->ids);
    free(s);
}

void session_join(qsa_session *s, qsa_seq seq)
{
    qsa_context *c = s->context;
    assert(s->previous == NULL && s->next == NULL && c->sessions != s);
    s->seq = seq;
    s->next = c->sessions;
    if (s->next != NULL)
        s->next->previous = s;
    c->sessions = s;
    c->session_count++;
    c->tokens += s->now->tokens;
    assert(c->tokens <= c->options.context && c->session_count <= c->options.sessions);
}

static void leave(qsa_session *s)
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

qsa_status session_create(qsa_context *c, qsa_session **out_session)
{
    if (c->session_count == c->options.sessions)
        return engine_fail(QSA_E_FULL, "the context's %u sessions are all open", c->options.sessions);
    qsa_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a session");
    s->context = c;
    s->now = state_new(c);
    s->spare = state_new(c);
    if (s->now == NULL || s->spare == NULL) {
        session_free(s);
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a session's state", 2 * state_size_bytes(c));
    }
    *out_session = s;
    return QSA_OK;
}

qsa_status qsa_session_open(qsa_context *context, qsa_session **out_session)
{
    if (context == NULL || out_session == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_open: context or out_session is NULL");
    ENGINE_TRY(context_idle(context));
    qsa_session *s = NULL;
    qsa_seq seq;
    ENGINE_TRY(session_create(context, &s));
    const qsa_status status = qsa_seq_open(context->cache, &seq);
    if (status != QSA_OK) {
        session_free(s);
        return engine_fail_as_library(status);
    }
    session_join(s, seq);
    *out_session = s;
    return QSA_OK;
}

void qsa_session_close(qsa_session *session)
{
    if (session == NULL || session->context->calls_host)
        return;
    (void)qsa_seq_close(session->context->cache, session->seq);
    leave(session);
    session_free(session);
}

/* Here and not in context.c, which does not depend on sessions. */
void qsa_context_destroy(qsa_context *context)
{
    if (context == NULL || context->calls_host)
        return;
    while (context->sessions != NULL)
        qsa_session_close(context->sessions);
    context_free(context);
}

/* ---- information ---- */

uint64_t qsa_session_tokens(const qsa_session *session)
{
    return session->now->tokens;
}

const int32_t *qsa_session_list(const qsa_session *session)
{
    return session->ids;
}

/* ---- forward ---- */

qsa_status qsa_session_set_anchor(qsa_session *session, int64_t position)
{
    ENGINE_TRY(context_idle(session->context));
    if (session->fed) {
        return engine_fail(QSA_E_ORDER, "the anchor is decided: the session begins at %lld",
                           (long long)session->anchor);
    }
    if (position < 0 || position >= QSA_MAX_POSITION)
        return engine_fail(QSA_E_LIMIT, "anchor %lld is not a position from 0 to below 2^31", (long long)position);
    session->anchor = position;
    return QSA_OK;
}

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

static uint64_t last_checkpoint(const qsa_session *s)
{
    return s->checkpoints.n == 0 ? 0 : s->checkpoints.at[s->checkpoints.n - 1]->tokens;
}

void session_advance(qsa_session *s, const int32_t *tokens, uint64_t n, const float *logits)
{
    qsa_context *c = s->context;
    session_state *old = s->now;
    assert(old->tokens + n <= s->ids_capacity && old->uses == 1 && s->spare->uses == 1);
    memcpy(s->ids + old->tokens, tokens, n * sizeof *s->ids);
    s->now = s->spare;
    s->now->tokens = old->tokens + n;
    s->now->has_logits = logits != NULL;
    if (logits != NULL)
        memcpy(state_logits(c, s->now), logits, c->model->shape.vocabulary * sizeof *logits);
    s->spare = old;
    s->fed = true;
    c->tokens += n;
    if (s->now->tokens - last_checkpoint(s) >= CHECKPOINT_SPACING)
        session_keep_checkpoint(s);
}

void session_keep_checkpoint(qsa_session *s)
{
    (void)checkpoints_keep(s->context, &s->checkpoints, s->now);
    checkpoints_thin(s->context, &s->checkpoints);
}

/* ---- back ---- */

/* A session that was never fed has no anchor; only a new sequence has none. */
void session_restore_sequence(qsa_session *s)
{
    qsa_cache *cache = s->context->cache;
    if (s->fed) {
        (void)qsa_seq_rewind(cache, s->seq, s->anchor + (int64_t)s->now->tokens);
        return;
    }
    (void)qsa_seq_close(cache, s->seq);
    (void)qsa_seq_open(cache, &s->seq); /* takes the place just freed */
}

/* The current state becomes a copy of this one; NULL: that of no tokens. */
static void become(qsa_session *s, const session_state *state)
{
    if (state != NULL) {
        state_copy(s->context, s->now, state);
        return;
    }
    s->now->tokens = 0;
    s->now->has_logits = 0;
    memset(s->now->floats, 0, state_floats(&s->context->model->shape) * sizeof *s->now->floats);
}

qsa_status session_go_back(qsa_session *s, const session_state *state)
{
    if (state == s->now)
        return QSA_OK;
    const uint64_t tokens = state == NULL ? 0 : state->tokens;
    assert(tokens <= s->now->tokens);
    if (s->fed)
        ENGINE_TRY_LIBRARY(qsa_seq_rewind(s->context->cache, s->seq, s->anchor + (int64_t)tokens));
    s->context->tokens -= s->now->tokens - tokens;
    checkpoints_cut(s->context, &s->checkpoints, tokens);
    become(s, state);
    return QSA_OK;
}

qsa_status session_take_over(qsa_session *s, const qsa_session *from, const session_state *state)
{
    qsa_context *c = s->context;
    const uint64_t tokens = state->tokens;
    assert(from != s && from->context == c && from->anchor == s->anchor && tokens <= s->ids_capacity);
    qsa_seq seq;
    ENGINE_TRY_LIBRARY(qsa_seq_fork(c->cache, from->seq, s->anchor + (int64_t)tokens, &seq));
    (void)qsa_seq_close(c->cache, s->seq);
    s->seq = seq;
    s->fed = true;
    memcpy(s->ids, from->ids, tokens * sizeof *s->ids);
    c->tokens = c->tokens - s->now->tokens + tokens;
    become(s, state);
    checkpoints_drop_all(c, &s->checkpoints);
    checkpoints_share(c, &s->checkpoints, &from->checkpoints, tokens);
    session_keep_checkpoint(s);
    return QSA_OK;
}

/* ---- the mark ---- */

qsa_status qsa_session_mark(qsa_session *session)
{
    qsa_context *c = session->context;
    ENGINE_TRY(context_idle(c));
    const session_state *checkpoint = checkpoints_keep(c, &session->checkpoints, session->now);
    if (checkpoint == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a mark", state_size_bytes(c));
    session->checkpoints.mark = checkpoint;
    checkpoints_thin(c, &session->checkpoints);
    return QSA_OK;
}

qsa_status qsa_session_return(qsa_session *session)
{
    ENGINE_TRY(context_idle(session->context));
    if (session->checkpoints.mark == NULL)
        return engine_fail(QSA_E_ORDER, "the session has no mark to return to");
    return session_go_back(session, session->checkpoints.mark);
}
