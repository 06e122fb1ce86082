/* SPDX-License-Identifier: Apache-2.0 */
/* Going back, and the longest stored prefix of a wanted list: in this session, or in another one of the context. */
#include "base/error.h"
#include "model/state.h"
#include "session/context.h"

#include <string.h>

/* ---- going back ---- */

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

/* To a state of this session's own list: its present one, one of its places, or NULL for the beginning. */
static qsa_status go_back(qsa_session *s, const session_state *state)
{
    if (state == s->now)
        return QSA_OK;
    const uint64_t tokens = state == NULL ? 0 : state->tokens;
    if (s->fed)
        ENGINE_TRY_LIBRARY(qsa_seq_rewind(s->context->cache, s->seq, s->anchor + (int64_t)tokens));
    s->context->tokens -= s->now->tokens - tokens;
    places_cut(s->context, &s->places, tokens);
    become(s, state);
    return QSA_OK;
}

/* ---- a place to return to ---- */

qsa_status qsa_session_mark(qsa_session *session)
{
    qsa_context *c = session->context;
    const session_state *place = places_keep(c, &session->places, session->now);
    if (place == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu bytes of a mark", state_size(c));
    session->places.mark = place;
    places_thin(c, &session->places);
    return QSA_OK;
}

qsa_status qsa_session_return(qsa_session *session)
{
    if (session->places.mark == NULL)
        return engine_fail(QSA_E_ORDER, "the session has no mark to return to");
    return go_back(session, session->places.mark);
}

/* ---- what is there already ---- */

typedef struct wanted_list {
    const int32_t *tokens;
    size_t n;
    bool logits; /* of the last token */
} wanted_list;

/* Where a session could go on from. */
typedef struct start {
    qsa_session *session;       /* NULL: nowhere yet */
    const session_state *state; /* NULL: the beginning */
    uint64_t common;            /* tokens of the list that the session stores */
} start;

static uint64_t common_tokens(const qsa_session *s, const wanted_list *list)
{
    const uint64_t most = s->now->tokens < list->n ? s->now->tokens : list->n;
    uint64_t common = 0;
    while (common < most && s->ids[common] == list->tokens[common])
        common++;
    return common;
}

/* A state at the list's very end helps only if the logits wanted of it are known. */
static bool is_useful(const session_state *state, const wanted_list *list)
{
    return state == NULL || state->tokens < list->n || !list->logits || state->has_logits;
}

static start start_in(qsa_session *s, const wanted_list *list)
{
    start from = {s, NULL, common_tokens(s, list)};
    from.state = from.common == s->now->tokens ? s->now : places_before(&s->places, from.common);
    if (!is_useful(from.state, list))
        from.state = places_before(&s->places, list->n - 1);
    return from;
}

static uint64_t tokens_at(const start *from)
{
    return from->state == NULL ? 0 : from->state->tokens;
}

/* The session itself, unless another one spares work. */
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

/* The session lets go of its own list and takes the beginning of another one's, for which it has room. The other goes
 * on as if alone. */
static qsa_status take_over(qsa_session *s, const start *from)
{
    qsa_context *c = s->context;
    const uint64_t tokens = from->state->tokens;
    qsa_seq seq;
    ENGINE_TRY_LIBRARY(qsa_seq_fork(c->cache, from->session->seq, s->anchor + (int64_t)tokens, &seq));
    (void)qsa_seq_close(c->cache, s->seq);
    s->seq = seq;
    s->fed = true;
    memcpy(s->ids, from->session->ids, tokens * sizeof *s->ids);
    c->tokens = c->tokens - s->now->tokens + tokens;
    become(s, from->state);
    places_forget(c, &s->places);
    places_share(c, &s->places, &from->session->places, tokens);
    session_keep_place(s);
    return QSA_OK;
}

/* ---- the wanted list ---- */

static qsa_status check_list(const qsa_session *s, const wanted_list *list)
{
    const qsa_context *c = s->context;
    for (size_t i = 0; i < list->n; i++) {
        if (list->tokens[i] < 0 || (uint32_t)list->tokens[i] >= c->model->shape.vocabulary) {
            return engine_fail(QSA_E_ARGUMENT, "token %zu is %d, but the vocabulary has %u tokens", i,
                               (int)list->tokens[i], c->model->shape.vocabulary);
        }
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
    if (out_logits != NULL)
        memcpy(out_logits, state_logits(s->context, s->now), s->context->model->shape.vocabulary * sizeof *out_logits);
}

qsa_status qsa_session_want(qsa_session *session, const int32_t *tokens, size_t n, float *out_logits,
                            qsa_reuse *out_reuse, void (*progress)(void *user, size_t there), void *user)
{
    if (session == NULL || (tokens == NULL && n > 0) || (n == 0 && out_logits != NULL))
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_want: no session, no tokens, or logits of none");
    const wanted_list list = {tokens, n, out_logits != NULL};
    ENGINE_TRY(check_list(session, &list));
    ENGINE_TRY(session_reserve(session, n));
    const start from = find_start(session, &list);
    const uint64_t there = tokens_at(&from);
    const qsa_reuse reuse = {from.common, there, n - there, from.session != session};
    ENGINE_TRY(from.session == session ? go_back(session, from.state) : take_over(session, &from));
    if (there == n)
        give_logits(session, out_logits);
    else
        ENGINE_TRY(session_feed_after(session, tokens + there, n - there, out_logits, there, progress, user));
    if (out_reuse != NULL)
        *out_reuse = reuse;
    return QSA_OK;
}
