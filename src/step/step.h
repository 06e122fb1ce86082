/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a step.
 *
 *            qsa_step_begin              qsa_layer_begin, phases            qsa_step_commit
 *   idle ---------------------> open ---------------------------> open ---------------------> idle
 *                                 \______ qsa_step_abort, a failed commit ____________________/
 *
 * Invariants:
 *  1. While a step is open, nothing that a committed query could read has changed: new tokens are in slots at or
 *     beyond the frontier, in pages whose only reference is the step's; a shared last page was copied at begin.
 *  2. `refusals` only goes down: the lowest (layer, entry, token, tensor) that any part has met. A failed device stays
 *     failed.
 *  3. Every address that a phase uses was computed at begin; a phase takes no lock and allocates nothing. */
#ifndef QSA_STEP_STEP_H
#define QSA_STEP_STEP_H

#include "base/carve.h"
#include "cache/cache.h"

#include <qsa/step.h>
#include <stdatomic.h>

/* What the step knows of an entry beyond the batch. */
typedef struct qsa_step_entry {
    qsa_sequence *sequence;
    int64_t position;   /* of its first token */
    uint32_t new_pages; /* taken at begin, beyond the sequence's n_pages */
    uint32_t replaced;  /* the shared last page that was copied */
    bool has_replaced;
} qsa_step_entry;

typedef struct qsa_layer_state {
    bool announced;
    qsa_layer_io io;
    atomic_uint parts; /* of this layer; 0: not known yet */
    atomic_uint parts_done[QSA_PHASES];
    uint8_t *next_phase; /* [QSA_MAX_PARTS] of each part; touched by one thread between barriers */
} qsa_layer_state;

/* The device failed: the first status and its detail. */
typedef struct qsa_device_failure {
    atomic_int status; /* QSA_OK: none */
    char detail[256];  /* written by whoever set status */
} qsa_device_failure;

struct qsa_step {
    qsa_cache *cache;
    uint64_t stamp; /* counts steps; marks the sequences of this one */

    qsa_batch batch;                /* the device's description of the step; its arrays are the following ones */
    qsa_step_entry *entries;        /* [max_step_tokens] */
    qsa_batch_entry *batch_entries; /* [max_step_tokens] */
    uint32_t *token_entry;          /* [max_step_tokens] */
    qsa_query *queries;             /* [max_step_tokens] */
    qsa_append_task *tasks;         /* [max_step_tokens] */
    qsa_triple *relative;           /* [max_step_tokens] */
    float *cos_sin;                 /* [2 * max_step_tokens][2 * pairs] */
    uint64_t *sequence_stamp;       /* [max_sequences] */

    qsa_layer_state layer;
    uint8_t *layer_done; /* [layers] */
    qsa_refusals refusals;
    qsa_device_failure failure;
};

/* The one step of a cache. */
static inline struct qsa_step *qsa_step_of(const qsa_cache *cache)
{
    assert(cache->step_memory != NULL);
    return cache->step_memory;
}

/* The announced layer has no output: its tokens only update the cache, and later phases do nothing. */
static inline bool qsa_stores_only(const struct qsa_step *step)
{
    return step->layer.io.out.data == NULL;
}

/* The sticky error as a status with its detail; QSA_OK if there is none. */
qsa_status qsa_step_error(const struct qsa_step *step);

#endif
