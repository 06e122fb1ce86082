/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens leave behind outside QSA (delta nets, convolutions), and the places of its past that a session can go
 * back to.
 *
 * K, V and index of any earlier length are there by a rewind; a recurrent state is not, so copies of it are kept along
 * the way: at the end of every feed of more than one token, and wherever PLACE_SPACING tokens have passed since the
 * last one. A session keeps at most options.checkpoints of them (its mark, which stays, not counted). When there is one
 * too many, that goes which leaves the smallest gap in relation to the distance from where the gap begins to the end:
 * so the gaps grow with that distance. After going back by d tokens, at most PLACE_SPACING tokens (and a batch) or d
 * times a small factor are computed again: with 8 places 1.4 after 32,768 tokens and 3.1 after 262,144, with 16 places
 * 0.4 and 1. tests/engine/test_session_places.c holds it to that. */
#ifndef QSA_ENGINE_SESSION_PLACES_H
#define QSA_ENGINE_SESSION_PLACES_H

#include <qsa_engine.h>

enum { PLACE_SPACING = 512, MAX_CHECKPOINTS = 32, DEFAULT_CHECKPOINTS = 8 };

/* From `tokens` on this is the layout in files as well. */
typedef struct session_state {
    uint32_t uses; /* how many hold it; one that is in use more than once does not change any more */
    uint32_t reserved;
    uint64_t tokens;     /* that led here */
    uint64_t has_logits; /* 1: those of the last token are known */
    float floats[];      /* [state_floats] as in model/state.h, then logits [vocabulary] */
} session_state;

/* All zero: the state before any token. NULL: no memory. */
session_state *state_new(qsa_context *c);
void state_release(qsa_context *c, session_state *state);
void state_copy(const qsa_context *c, session_state *to, const session_state *from);
float *state_logits(const qsa_context *c, session_state *state);
size_t state_size(const qsa_context *c); /* bytes of all of it */

typedef struct session_places {
    session_state
        *at[MAX_CHECKPOINTS + 2]; /* ascending by tokens; one for the mark, one that comes before another goes */
    uint32_t n;
    const session_state *mark; /* one of them; NULL: none */
} session_places;

/* Keeps a copy of the state, which is the furthest of all: the place, or NULL without memory. To be followed by
 * places_thin. */
session_state *places_keep(qsa_context *c, session_places *places, const session_state *state);
/* Down to as many as are allowed. */
void places_thin(qsa_context *c, session_places *places);
/* Forgets what lies beyond that many tokens, the mark too. */
void places_cut(qsa_context *c, session_places *places, uint64_t tokens);
void places_forget(qsa_context *c, session_places *places); /* all */
/* Into an empty list: the same places up to that many tokens. Nothing is copied. */
void places_share(qsa_context *c, session_places *to, const session_places *from, uint64_t tokens);
/* The place furthest on the way that has at most that many tokens; NULL: the beginning. */
session_state *places_before(const session_places *places, uint64_t tokens);

/* Which of the places at[n] goes: the one without which the gap, divided by the distance from where it begins to the
 * end of the list (at[n - 1]), is smallest. Never the last; never `spared` (n: none spared). n is at least 2. */
uint32_t places_choose(const uint64_t *at, uint32_t n, uint32_t spared);

#endif
