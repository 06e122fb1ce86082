/* SPDX-License-Identifier: Apache-2.0 */
/* The whole forward pass (SPEC section 7), its memory and its threads.
 *
 * A batch takes two calls. prepare allocates what the batch needs beyond the arrays of a chunk, so everything that can
 * run out of memory is in it; run computes the batch within a step of libqsa. A token's bits depend neither on the
 * other tokens of the batch nor on threads and processor. */
#ifndef QSA_ENGINE_MODEL_FORWARD_H
#define QSA_ENGINE_MODEL_FORWARD_H

#include "model/model.h"
#include "model/pass.h"

typedef struct forward forward;

typedef struct forward_batch {
    batch_layout layout;       /* must live until the run, like all arrays here */
    uint32_t tokens;           /* of all segments */
    const int32_t *ids;        /* [tokens] */
    const int32_t *ngram_rows; /* [tokens][heads]; not read without n-gram embedding */
    const uint32_t *wanted;    /* [wanted_count] columns whose logits are computed, ascending */
    uint32_t wanted_count;
    const qsa_tap *tap; /* NULL: none */
} forward_batch;

/* How many threads to start for the number requested: at most the machine's processors (but up to four always), as more
 * would only wait for each other. No result depends on it. */
uint32_t forward_threads(uint32_t asked);

/* The best number of tokens per batch for this model: the more experts, the more tokens, so that each expert has
 * columns to multiply. */
uint32_t forward_best_chunk(const model_shape *shape);

/* Reserves memory for batches of chunk tokens. clock, unless NULL, receives each part as it begins; it must outlive the
 * pass. Errors: QSA_E_MEMORY, QSA_E_IO (threads), QSA_E_UNSUPPORTED (QSA_ISA asks for kernels that are not here). */
qsa_status forward_create(const qsa_model *model, uint32_t chunk, uint32_t threads, part_clock *clock,
                          forward **out_forward);
void forward_destroy(forward *f);

uint64_t forward_bytes(const forward *f);
/* What forward_create will allocate for arrays. */
uint64_t forward_planned_bytes(const qsa_model *model, uint32_t chunk);
/* Number of QSA layers whose queries run for the prepared batch. */
uint32_t forward_query_layers(const forward *f);

/* Errors: QSA_E_MEMORY. */
qsa_status forward_prepare(forward *f, const forward_batch *batch);

/* Computes the prepared batch. *out_logits [wanted_count][vocabulary] is valid until the next prepare. Errors: those of
 * libqsa's phases, with their detail; the states after the segments are then unspecified. */
qsa_status forward_run(forward *f, qsa_step *step, const float **out_logits);

#endif
