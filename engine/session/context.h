/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a context and its sessions.
 *
 * Invariants between calls:
 *  1. A session's QSA sequence holds exactly the tokens [anchor, anchor + now->tokens), and ids [now->tokens] names
 * them.
 *  2. `now` is what those tokens leave behind; `spare` is scratch of the same size. A batch writes the new state into
 *     `spare`, and the two change places when libqsa has committed: so no failure is half done. Both belong to the
 * session alone (uses is 1).
 *  3. Every place of a session is the state after the first at[i]->tokens of its ids, at most now->tokens, and none is
 *     there twice. Places may be shared with other sessions.
 *  4. context->tokens is the sum of the sessions' tokens, those that they share counted for each, and at most
 *     options.context. */
#ifndef QSA_ENGINE_SESSION_CONTEXT_H
#define QSA_ENGINE_SESSION_CONTEXT_H

#include "model/forward.h"
#include "model/model.h"
#include "session/places.h"

#include <qsa_engine.h>

struct qsa_session {
    qsa_context *context;
    qsa_session *previous, *next; /* in the context's list */
    qsa_seq seq;
    int64_t anchor;
    bool fed;     /* has ever held a token: its anchor is decided */
    int32_t *ids; /* [now->tokens], room for [ids_capacity] */
    uint64_t ids_capacity;
    session_state *now, *spare;
    session_places places;
    uint64_t batch; /* the last batch that named it */
};

struct qsa_context {
    const qsa_model *model;
    qsa_context_options options; /* no zeros */
    qsa_config config;           /* without norms */
    qsa_cache *cache;
    forward *pass;
    part_clock *clock; /* &own_clock, or NULL without options.profile */
    part_clock own_clock;
    qsa_tap tap; /* layer NULL: none */
    qsa_session *sessions;
    uint32_t session_count;
    uint64_t tokens;
    uint64_t batches;
    uint64_t state_bytes;
    uint64_t visible_tokens; /* as in qsa_context_stats */

    /* room for one batch */
    qsa_entry *entries;      /* [sessions] */
    batch_segment *segments; /* [sessions] */
    int32_t *ids;            /* [chunk] */
    int32_t *ngram_rows;     /* [chunk][heads] */
    uint32_t *wanted;        /* [chunk] */
};

/* A session of the context without a sequence; unlinked. NULL: *out_status says why, QSA_E_FULL (too many) or
 * QSA_E_MEMORY. */
qsa_session *session_allocate(qsa_context *c, qsa_status *out_status);
void session_free(qsa_session *s);
void session_link(qsa_session *s);

/* Room for that many token ids. Errors: QSA_E_MEMORY. */
qsa_status session_reserve(qsa_session *s, uint64_t tokens);
/* Those n tokens follow, and what led to `spare` is the present state from now on. */
void session_move_on(qsa_session *s, const int32_t *tokens, uint64_t n);
/* Keeps the present end as a place to go back to. */
void session_keep_place(qsa_session *s);
/* Feeds in chunks; progress counts from `before`. Errors: as qsa_session_feed. */
qsa_status session_feed_after(qsa_session *s, const int32_t *tokens, size_t n, float *out_logits, size_t before,
                              void (*progress)(void *user, size_t fed), void *user);

#endif
