/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a context and its sessions.
 *
 * Invariants between calls:
 *  1. A session's QSA sequence holds exactly the tokens [anchor, anchor + tokens) of its list.
 *  2. `state` and `history` are what those tokens leave behind; `spare` is scratch of the same size. A batch writes the
 *     new state into `spare`, and the two change places when libqsa has committed: so no failure is half done.
 *  3. context->tokens is the sum of the sessions' tokens, and at most options.context.
 *  4. If `marked`, mark.tokens <= tokens. */
#ifndef QSA_ENGINE_SESSION_CONTEXT_H
#define QSA_ENGINE_SESSION_CONTEXT_H

#include "model/forward.h"
#include "model/model.h"

#include <qsa_engine.h>

/* What tokens leave behind outside QSA. */
typedef struct recurrent_state {
    float *floats;                    /* laid out as in model/state.h */
    int32_t history[MODEL_MAX_NGRAM]; /* the last tokens, newest first; EOS before the start */
    uint64_t tokens;
} recurrent_state;

struct qsa_session {
    qsa_context *context;
    qsa_session *previous, *next; /* in the context's list */
    qsa_seq seq;
    int64_t anchor;
    bool fed; /* has ever held a token: its anchor is decided */
    recurrent_state now, mark;
    float *spare;
    bool marked;
    uint64_t batch; /* the last batch that named it */
};

struct qsa_context {
    const qsa_model *model;
    qsa_context_options options; /* no zeros */
    qsa_config config;           /* without norms */
    qsa_cache *cache;
    forward *pass;
    qsa_tap tap; /* layer NULL: none */
    qsa_session *sessions;
    uint64_t tokens;
    uint64_t batches;
    uint64_t state_bytes;

    /* room for one batch */
    qsa_entry *entries;      /* [sessions] */
    batch_segment *segments; /* [sessions] */
    int32_t *ids;            /* [chunk] */
    int32_t *ngram_rows;     /* [chunk][heads] */
    uint32_t *wanted;        /* [chunk] */
};

/* The detail of libqsa's last failure becomes the engine's. */
qsa_status fail_as_library(qsa_status status);

#endif
