/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens leave behind outside QSA (delta nets, convolutions), and the places that a session can go back to.
 *
 * libqsa rewinds K, V and index to any length. A recurrent state cannot be rewound, so copies are kept along the way:
 * at the end of every feed of more than one token, and wherever PLACE_SPACING tokens have passed since the last copy.
 * A session keeps at most options.checkpoints of them, its mark not counted. One too many: the place goes that leaves
 * the smallest gap in relation to the distance from the gap's beginning to the end. So gaps grow with that distance:
 * after going back by d tokens, at most PLACE_SPACING tokens (and a batch) or d times a factor are computed again, with
 * 8 places 1.4 after 32,768 tokens and 3.1 after 262,144, with 16 places 0.4 and 1
 * (tests/engine/test_session_places.c). */
#ifndef QSA_ENGINE_SESSION_PLACES_H
#define QSA_ENGINE_SESSION_PLACES_H

#include "session/context.h"

enum { PLACE_SPACING = 512 };

/* A recurrent state, reference-counted: one with uses > 1 does not change any more. From `tokens` on this is the layout
 * in files, too. */
typedef struct session_state {
    uint32_t uses;
    uint32_t reserved;
    uint64_t tokens;     /* that led here */
    uint64_t has_logits; /* 1: those of the last token are known */
    float floats[];      /* [state_floats] as in model/state.h, then logits [vocabulary] */
} session_state;

/* All zeros: the state before any token. NULL: no memory. */
session_state *state_new(qsa_context *c);
void state_release(qsa_context *c, session_state *state); /* NULL is fine */
void state_copy(const qsa_context *c, session_state *to, const session_state *from);
float *state_logits(const qsa_context *c, session_state *state); /* [vocabulary] */
size_t state_size_bytes(const qsa_context *c);

/* Ascending by tokens, none twice. */
typedef struct session_places {
    session_state *at[MAX_CHECKPOINTS + 2]; /* one for the mark, one that comes before another goes */
    uint32_t n;
    const session_state *mark; /* one of them; NULL: none */
} session_places;

/* Keeps a copy of the state, which is beyond all places or at the last one. Returns the place, or NULL without memory.
 * places_thin must follow. */
session_state *places_keep(qsa_context *c, session_places *places, const session_state *state);

/* Drops places until no more are left than options.checkpoints, and the mark. */
void places_thin(qsa_context *c, session_places *places);

/* Drops those beyond that many tokens, the mark too. */
void places_cut(qsa_context *c, session_places *places, uint64_t tokens);
void places_drop_all(qsa_context *c, session_places *places);

/* Into an empty list: the places of `from` up to that many tokens, shared, not copied. */
void places_share(qsa_context *c, session_places *to, const session_places *from, uint64_t tokens);

/* The last place with at most that many tokens; NULL: only the beginning. */
session_state *places_before(const session_places *places, uint64_t tokens);

/* Which of the places at[n] goes: the index i for which (at[i + 1] - at[i - 1]) / (at[n - 1] - at[i - 1]) is smallest,
 * at[-1] being 0. Never the last; never `spared` (n: none is spared). n is at least 2. */
uint32_t places_choose(const uint64_t *at, uint32_t n, uint32_t spared);

#endif
