/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a session, and every function that changes one.
 *
 * Invariants between calls:
 *  1. The QSA sequence holds exactly the tokens [anchor, anchor + now->tokens), and ids [now->tokens] names them.
 *  2. `now` is the recurrent state after those tokens; `spare` is scratch of the same size. A batch writes the new
 * state into `spare`, and the two change places once libqsa has committed: so no failure is half done. Both belong to
 *     the session alone (uses is 1).
 *  3. Every place is the state after the first at[i]->tokens of its ids, at most now->tokens. Places may be shared with
 *     other sessions.
 *  4. The session is in its context's list, and its tokens are in context->tokens (session_create excepted, until
 *     session_join). */
#ifndef QSA_ENGINE_SESSION_SESSION_H
#define QSA_ENGINE_SESSION_SESSION_H

#include "session/places.h"

struct qsa_session {
    qsa_context *context;
    qsa_session *previous, *next; /* in the context's list */
    qsa_seq seq;
    int64_t anchor;
    bool fed;     /* has held a token: its anchor is decided */
    int32_t *ids; /* [now->tokens], room for [ids_capacity] */
    uint64_t ids_capacity;
    session_state *now, *spare;
    session_places places;
    uint64_t batch; /* the last batch that named it */
};

/* ---- life ---- */

/* A session without a sequence, not in the list yet. Errors: QSA_E_FULL (too many sessions), QSA_E_MEMORY. */
qsa_status session_create(qsa_context *c, qsa_session **out_session);
/* Frees one that is not in the list; its sequence stays. */
void session_free(qsa_session *s);
/* Puts it into the list. From here on the sequence is the session's. */
void session_join(qsa_session *s, qsa_seq seq);

/* ---- forward ---- */

/* Room for that many token ids. Errors: QSA_E_MEMORY. */
qsa_status session_reserve(qsa_session *s, uint64_t tokens);

/* After libqsa committed: n tokens, for which there is room, follow, and the state in `spare` becomes the present one.
 * logits [vocabulary] of the last token, NULL if they were not computed. Keeps a place if one is due. */
void session_advance(qsa_session *s, const int32_t *tokens, uint64_t n, const float *logits);

/* Keeps the present end as a place. Without memory there is none, which costs time later and nothing else. */
void session_keep_place(qsa_session *s);

/* ---- back ---- */

/* Makes the sequence hold `now->tokens` tokens again, after steps that are not to count. */
void session_restore_sequence(qsa_session *s);

/* To a state of its own: the present one, one of its places, or NULL for the beginning. Errors: libqsa's. */
qsa_status session_go_back(qsa_session *s, const session_state *state);

/* Drops its list and takes that of another session up to a state of that one, for which it has room; the other goes on
 * as if alone. Errors: libqsa's. */
qsa_status session_take_over(qsa_session *s, const qsa_session *from, const session_state *state);

#endif
