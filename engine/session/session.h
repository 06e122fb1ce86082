/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a session, and every function that changes one.
 *
 * Invariants between calls:
 *  1. The QSA sequence holds exactly the tokens [anchor, anchor + now->tokens); ids [now->tokens] are their ids.
 *  2. `now` is the recurrent state after those tokens; `spare` is scratch of the same size. A batch writes the new
 * state into `spare`, and the two are exchanged once libqsa has committed, so no failure leaves half a change. Both
 * belong to the session alone (uses is 1).
 *  3. Every checkpoint is the state after the first at[i]->tokens of its ids, at most now->tokens. Sessions may share
 * checkpoints.
 *  4. The session is in its context's list, and its tokens are in context->tokens (except from session_create until
 *     session_join). */
#ifndef QSA_ENGINE_SESSION_SESSION_H
#define QSA_ENGINE_SESSION_SESSION_H

#include "session/checkpoints.h"

struct qsa_session {
    qsa_context *context;
    qsa_session *previous, *next; /* in the context's list */
    qsa_seq seq;
    int64_t anchor;
    bool fed;     /* has held a token: its anchor is fixed */
    int32_t *ids; /* [now->tokens], room for [ids_capacity] */
    uint64_t ids_capacity;
    session_state *now, *spare;
    session_checkpoints checkpoints;
    uint64_t batch; /* the last batch that included it */
};

/* ---- life ---- */

/* A session without a sequence, not yet in the list. Errors: QSA_E_FULL (too many sessions), QSA_E_MEMORY. */
qsa_status session_create(qsa_context *c, qsa_session **out_session);
/* Frees a session that is not in the list; its sequence stays. */
void session_free(qsa_session *s);
/* Adds it to the list. From here on the session owns the sequence. */
void session_join(qsa_session *s, qsa_seq seq);

/* ---- forward ---- */

/* Room for that many token ids. Errors: QSA_E_MEMORY. */
qsa_status session_reserve(qsa_session *s, uint64_t tokens);

/* After libqsa's commit: appends n tokens, for which there is room, and makes `spare` the current state. logits
 * [vocabulary] of the last token, NULL if they were not computed. Keeps a checkpoint if one is due. */
void session_advance(qsa_session *s, const int32_t *tokens, uint64_t n, const float *logits);

/* Keeps the current end as a checkpoint. Out of memory it keeps none, which only costs time later. */
void session_keep_checkpoint(qsa_session *s);

/* ---- back ---- */

/* Makes the sequence hold `now->tokens` tokens again, undoing later steps. */
void session_restore_sequence(qsa_session *s);

/* Goes back to a state of its own: the current one, one of its checkpoints, or NULL for the beginning. Errors:
 * libqsa's. */
qsa_status session_go_back(qsa_session *s, const session_state *state);

/* Replaces its list by that of another session, up to a state of that session, for which it has room; the other one is
 * not affected. Errors: libqsa's. */
qsa_status session_take_over(qsa_session *s, const qsa_session *from, const session_state *state);

#endif
