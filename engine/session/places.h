/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent states (delta nets, convolutions), and the places that a session can go back to.
 *
 * libqsa rewinds K, V and index to any length. A recurrent state cannot be rewound, so copies are kept: at the end of
 * every feed of more than one token, and whenever PLACE_SPACING tokens have passed since the last copy. A session
 * keeps at most options.checkpoints of them, not counting its mark. When there is one too many, the dropped place is
 * the one that leaves the smallest gap relative to the distance from the gap's start to the end. So gaps grow with
 * that distance: going back by d tokens recomputes at most PLACE_SPACING tokens (and a batch) or d times a factor:
 * with 8 places 1.4 after 32,768 tokens and 3.1 after 262,144, with 16 places 0.4 and 1
 * (tests/engine/test_session_places.c). */
#ifndef QSA_ENGINE_SESSION_PLACES_H
#define QSA_ENGINE_SESSION_PLACES_H

#include "session/context.h"

enum { PLACE_SPACING = 512 };

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
typedef struct session_places {
    session_state *at[MAX_CHECKPOINTS + 2]; /* one more for the mark, one for a new place before another is dropped */
    uint32_t n;
    const session_state *mark; /* one of them; NULL: none */
} session_places;

/* Keeps a copy of the state, which is after all places or at the last one. Returns the place, or NULL without memory.
 * The caller must call places_thin next. */
session_state *places_keep(qsa_context *c, session_places *places, const session_state *state);

/* Drops places until at most options.checkpoints remain, not counting the mark. */
void places_thin(qsa_context *c, session_places *places);

/* Drops the places after more than that many tokens, including the mark. */
void places_cut(qsa_context *c, session_places *places, uint64_t tokens);
void places_drop_all(qsa_context *c, session_places *places);

/* Gives an empty list the places of `from` up to that many tokens; the states are shared, not copied. */
void places_share(qsa_context *c, session_places *to, const session_places *from, uint64_t tokens);

/* The last place after at most that many tokens; NULL: none, only the beginning. */
session_state *places_before(const session_places *places, uint64_t tokens);

/* The place to drop among at[n]: the index i for which (at[i + 1] - at[i - 1]) / (at[n - 1] - at[i - 1]) is smallest,
 * with at[-1] = 0. Never the last; never `spared` (n: none is spared). n is at least 2. */
uint32_t places_choose(const uint64_t *at, uint32_t n, uint32_t spared);

#endif
