/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and threads of the forward pass.
 *
 * A batch goes in two steps: prepare finds or builds the graph and allocates all it needs, so it does all that can fail
 * for want of memory; run computes it within a step of libqsa.
 *
 * A graph depends on how many tokens a batch has and how many logits are wanted of it, on nothing else. The last few
 * are kept, so that token after token runs the same one. All share one buffer of activations: only one runs at a time,
 * and none expects anything there from an earlier run. */
#ifndef QSA_ENGINE_MODEL_FORWARD_H
#define QSA_ENGINE_MODEL_FORWARD_H

#include "model/builder.h"
#include "model/model.h"

typedef struct forward forward;

typedef struct forward_batch {
    batch_layout layout;       /* must live until the run */
    uint32_t tokens;           /* of all segments */
    const int32_t *ids;        /* [tokens] */
    const int32_t *ngram_rows; /* [tokens][heads]; not read without n-gram embedding */
    const uint32_t *wanted;    /* [wanted_count] columns whose logits are computed, ascending */
    uint32_t wanted_count;
    const qsa_tap *tap; /* NULL: none; otherwise the same one in every batch */
} forward_batch;

/* How many threads are started where so many are asked for: no more than the machine has processors (but four always),
 * as more would only wait for each other. No result depends on it. */
uint32_t forward_threads(uint32_t asked);

/* Reserves memory for batches of chunk tokens. clock, unless NULL, is told of each part as it begins; it must outlive
 * the pass. Errors: QSA_E_MEMORY, QSA_E_IO (threads). */
qsa_status forward_create(const qsa_model *model, const qsa_cache *cache, uint32_t chunk, uint32_t threads,
                          part_clock *clock, forward **out_forward);
void forward_destroy(forward *f);

uint64_t forward_bytes(const forward *f);
uint64_t forward_graphs_built(const forward *f);
/* QSA layers that the tokens of the prepared batch ask, not only enter. */
uint32_t forward_query_layers(const forward *f);

/* Errors: QSA_E_MEMORY. */
qsa_status forward_prepare(forward *f, const forward_batch *batch);

/* Computes what was prepared. *out_logits [wanted_count][vocabulary] lives until the next prepare. Errors: those of
 * libqsa's phases, with their detail; the segments' states after are then unspecified. */
qsa_status forward_run(forward *f, qsa_step *step, const float **out_logits);

#endif
