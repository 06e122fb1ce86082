/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent states (delta nets, convolutions), and the checkpoints: the ends that a session can go back to.
 *
 * libqsa rewinds K, V and index to any length. A recurrent state cannot be rewound, so copies are kept: at the end of
 * every feed of more than one token, and whenever CHECKPOINT_SPACING tokens have passed since the last copy. A session
 * keeps at most options.checkpoints of them, not counting its mark. When there is one too many, the dropped checkpoint
 * is the one that leaves the smallest gap relative to the distance from the gap's start to the end. So gaps grow with
 * that distance: going back by d tokens recomputes at most CHECKPOINT_SPACING tokens (and a batch) or d times a factor:
 * with 8 checkpoints 1.4 after 32,768 tokens and 3.1 after 262,144, with 16 checkpoints 0.4 and 1
 * (tests/engine/test_session_checkpoints.c). */
#ifndef QSA_ENGINE_SESSION_CHECKPOINTS_H
#define QSA_ENGINE_SESSION_CHECKPOINTS_H

#include "session/context.h"

enum { CHECKPOINT_SPACING = 512 };

/* A recurrent state, reference-counted: one with uses > 1 no longer changes. From `tokens` on this is also the layout
 * in files. */
typedef struct session_state {
    uint32_t uses;
    uint32_t reserved;
    uint64_t tokens;     /* that the state has seen */
    uint64_t has_logits; /* 1: it has the logits of the last token */
    float floats[];      /* [state_floats] as in model/state.h, then logits [vocabulary] */
} session_state;

_Static_assert(sizeof(session_state) == PLAN_STATE_HEAD_BYTES, "what a plan counts");

/* All zeros: the state before any token. NULL: no memory. */
session_state *state_new(qsa_context *c);
void state_release(qsa_context *c, session_state *state); /* NULL is legal */
void state_copy(const qsa_context *c, session_state *to, const session_state *from);
float *state_logits(const qsa_context *c, session_state *state); /* [vocabulary] */
size_t state_size_bytes(const qsa_context *c);

/* Ascending by tokens, none twice. */
typedef struct session_checkpoints {
    session_state
        *at[MAX_CHECKPOINTS + 2]; /* one more for the mark, one for a new checkpoint before another is dropped */
    uint32_t n;
    const session_state *mark; /* one of them; NULL: none */
} session_checkpoints;

/* Keeps a copy of the state, which is after all checkpoints or at the last one. Returns the checkpoint, or NULL without
 * memory. The caller must call checkpoints_thin next. */
session_state *checkpoints_keep(qsa_context *c, session_checkpoints *checkpoints, const session_state *state);

/* Drops checkpoints until at most options.checkpoints remain, not counting the mark. */
void checkpoints_thin(qsa_context *c, session_checkpoints *checkpoints);

/* Drops the checkpoints after more than that many tokens, including the mark. */
void checkpoints_cut(qsa_context *c, session_checkpoints *checkpoints, uint64_t tokens);
void checkpoints_drop_all(qsa_context *c, session_checkpoints *checkpoints);

/* Gives an empty list the checkpoints of `from` up to that many tokens; the states are shared, not copied. */
void checkpoints_share(qsa_context *c, session_checkpoints *to, const session_checkpoints *from, uint64_t tokens);

/* The last checkpoint after at most that many tokens; NULL: none, only the beginning. */
session_state *checkpoints_before(const session_checkpoints *checkpoints, uint64_t tokens);

/* The checkpoint to drop among at[n]: the index i for which (at[i + 1] - at[i - 1]) / (at[n - 1] - at[i - 1]) is
 * smallest, with at[-1] = 0. Never the last; never `spared` (n: none is spared). n is at least 2. */
uint32_t checkpoints_choose(const uint64_t *at, uint32_t n, uint32_t spared);

#endif
