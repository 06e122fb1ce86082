/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds lists of any length, chunk by chunk; and brings a session to a wanted list, reusing the longest stored prefix
 * of it: this session's, or that of another one of the context. */
#include "base/error.h"
#include "session/session.h"

#include <assert.h>
#include <string.h>

/* ---- feeding ---- */

/* Receives the number of tokens fed after each chunk. */
typedef struct listener {
    qsa_progress progress; /* NULL: none */
    void *user;
    size_t before; /* tokens stored before the first chunk */
} listener;

static bool goes_on(qsa_context *c, const listener *l, size_t fed)
{
    if (l->progress == NULL)
        return true;
    c->calls_host = true;
    const bool goes_on = l->progress(l->user, l->before + fed);
    c->calls_host = false;
    return goes_on;
}

static qsa_status feed_chunk(qsa_session *s, const int32_t *tokens, size_t n, float *out_logits)
{
    const qsa_batch_item item = {s, tokens, (uint32_t)n, out_logits != NULL, out_logits};
    return qsa_batch_run(s->context, &item, 1);
}

/* Errors: as qsa_session_feed. */
static qsa_status feed_chunks(qsa_session *s, const int32_t *tokens, size_t n, float *out_logits, const listener *l)
{
    const size_t chunk = s->context->options.chunk;
    size_t fed = 0;
    bool is_stopped = false;
    while (fed < n && !is_stopped) {
        const size_t now = n - fed < chunk ? n - fed : chunk;
        ENGINE_TRY(feed_chunk(s, tokens + fed, now, fed + now == n ? out_logits : NULL));
        fed += now;
        is_stopped = !goes_on(s->context, l, fed) && fed < n;
    }
    if (fed > 1)
        session_keep_checkpoint(s);
    return is_stopped ? engine_fail(QSA_E_CANCELLED, "stopped after %zu of %zu tokens", fed, n) : QSA_OK;
}

qsa_status qsa_session_feed(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            qsa_progress progress, void *user)
{
    if (session == NULL || (tokens == NULL && n > 0))
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_feed: session or tokens is NULL");
    ENGINE_TRY(context_idle(session->context));
    if (n == 0 && out_logits != NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_feed: no token whose logits could be computed");
    return feed_chunks(session, tokens, n, out_logits, &(listener){progress, user, 0});
}

/* ---- prefix reuse ---- */

typedef struct wanted_list {
    const int32_t *tokens;
    size_t n;
    bool logits; /* of the last token */
} wanted_list;

/* A state from which a session could continue. */
typedef struct start {
    qsa_session *session;
    const session_state *state; /* NULL: the beginning */
    uint64_t common;            /* length of the list's prefix that the session stores */
} start;

static uint64_t common_tokens(const qsa_session *s, const wanted_list *list)
{
    const uint64_t most = s->now->tokens < list->n ? s->now->tokens : list->n;
    uint64_t common = 0;
    while (common < most && s->ids[common] == list->tokens[common])
        common++;
    return common;
}

/* A state at the list's end helps only if it has the logits, when they are wanted. */
static bool is_useful(const session_state *state, const wanted_list *list)
{
    return state == NULL || state->tokens < list->n || !list->logits || state->has_logits;
}

static start start_in(qsa_session *s, const wanted_list *list)
{
    start from = {s, NULL, common_tokens(s, list)};
    from.state = from.common == s->now->tokens ? s->now : checkpoints_before(&s->checkpoints, from.common);
    if (!is_useful(from.state, list))
        from.state = checkpoints_before(&s->checkpoints, list->n - 1);
    return from;
}

static uint64_t tokens_at(const start *from)
{
    return from->state == NULL ? 0 : from->state->tokens;
}

/* The session's own start, unless another session saves more work. */
static start find_start(qsa_session *s, const wanted_list *list)
{
    start best = start_in(s, list);
    for (qsa_session *other = s->context->sessions; other != NULL; other = other->next) {
        if (other == s || other->anchor != s->anchor)
            continue;
        const start from = start_in(other, list);
        if (tokens_at(&from) > tokens_at(&best))
            best = from;
    }
    return best;
}

/* ---- the wanted list ---- */

static qsa_status check_list(const qsa_session *s, const wanted_list *list)
{
    const qsa_context *c = s->context;
    const size_t stranger = context_find_stranger(c, list->tokens, list->n);
    if (stranger < list->n) {
        return engine_fail(QSA_E_ARGUMENT, "token %zu is %d, but the vocabulary has %u tokens", stranger,
                           (int)list->tokens[stranger], c->model->shape.vocabulary);
    }
    const uint64_t others = c->tokens - s->now->tokens;
    if (list->n > c->options.context - others) {
        return engine_fail(QSA_E_FULL, "the context is full: other sessions store %llu tokens, %zu wanted, room for %u",
                           (unsigned long long)others, list->n, c->options.context);
    }
    return QSA_OK;
}

static void give_logits(qsa_session *s, float *out_logits)
{
    assert(s->now->has_logits);
    memcpy(out_logits, state_logits(s->context, s->now), s->context->model->shape.vocabulary * sizeof *out_logits);
}

qsa_status qsa_session_want(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            qsa_reuse *out_reuse, qsa_progress progress, void *user)
{
    if (session == NULL || (tokens == NULL && n > 0) || (n == 0 && out_logits != NULL))
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_want: no session, no tokens, or logits of none");
    ENGINE_TRY(context_idle(session->context));
    const wanted_list list = {tokens, n, out_logits != NULL};
    ENGINE_TRY(check_list(session, &list));
    ENGINE_TRY(session_reserve(session, n));
    const start from = find_start(session, &list);
    const size_t there = tokens_at(&from); /* read now: going back changes the state that it is read from */
    const qsa_reuse reuse = {from.common, there, n - there, from.session != session};
    if (reuse.forked)
        ENGINE_TRY(session_take_over(session, from.session, from.state));
    else
        ENGINE_TRY(session_go_back(session, from.state));
    if (there < n)
        ENGINE_TRY(feed_chunks(session, tokens + there, n - there, out_logits, &(listener){progress, user, there}));
    else if (out_logits != NULL)
        give_logits(session, out_logits);
    if (out_reuse != NULL)
        *out_reuse = reuse;
    return QSA_OK;
}
