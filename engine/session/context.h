/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a context: what all its sessions share.
 *
 * The files of engine/session, bottom up; each calls only those before it:
 *   plan      the options of a context, and what it will take
 *   context   one cache, one forward pass, memory for one batch
 *   checkpoints  recurrent states, and the copies of them that a session can go back to
 *   session   one token list; every function that changes one
 *   batch     one forward pass of any mix of sessions
 *   feed      lists of any length, prefix reuse
 *   fill      a session of synthetic content, of any depth
 *   saved     a session as a file
 * sampler depends on none of them. */
#ifndef QSA_ENGINE_SESSION_CONTEXT_H
#define QSA_ENGINE_SESSION_CONTEXT_H

#include "model/forward.h"
#include "session/plan.h"

#include <qsa_engine.h>

struct qsa_context {
    const qsa_model *model;
    qsa_context_options options; /* with defaults filled in */
    qsa_config config;           /* without norms */
    qsa_cache *cache;
    forward *pass;
    part_clock *clock; /* &own_clock, or NULL without options.profile */
    part_clock own_clock;
    qsa_tap tap;     /* layer NULL: none */
    bool calls_host; /* progress or the tap is running */

    /* owned by session.c */
    qsa_session *sessions; /* a list, newest first */
    uint32_t session_count;
    uint64_t tokens;      /* the sum of the sessions' tokens, shared ones counted for each; at most options.context */
    uint64_t state_bytes; /* as in qsa_context_stats */

    /* owned by batch.c */
    uint64_t batches;
    uint64_t visible_tokens; /* as in qsa_context_stats */

    /* memory for one batch */
    qsa_entry *entries;      /* [sessions] */
    batch_segment *segments; /* [sessions] */
    int32_t *ids;            /* [chunk] */
    int32_t *ngram_rows;     /* [chunk][heads] */
    uint32_t *wanted;        /* [chunk] */
};

/* QSA_E_BUSY inside a callback: every function that changes the context or one of its sessions asks first. */
qsa_status context_idle(const qsa_context *c);

/* Frees the context. It must have no sessions. */
void context_free(qsa_context *c);

/* QSA_E_FULL if that many more tokens do not fit. */
qsa_status context_check_room(const qsa_context *c, uint64_t tokens);

/* Index of the first of n tokens outside the vocabulary; n: none is. */
size_t context_find_stranger(const qsa_context *c, const int32_t *tokens, size_t n);

#endif
