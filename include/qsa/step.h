/* SPDX-License-Identifier: Apache-2.0 */
/* A step: one forward pass over any mix of sequences, prompt chunks and single tokens.
 *
 *   qsa_step_begin -> for each layer: qsa_layer_begin, phases 0 .. QSA_PHASES-1 -> qsa_step_commit or qsa_step_abort
 *
 * begin checks every position and reserves everything; after it only refused input (QSA_E_NONFINITE) and devices fail.
 * An error is sticky, of refused input the lowest by (layer, entry, token, tensor), whatever the threads did; later
 * phases do nothing, commit returns it and acts as abort. Until commit no sequence has changed.
 *
 * The library starts no threads. A layer is divided into any number of parts, at most QSA_MAX_PARTS; each part of a
 * phase is one call, from any thread, in any order or at once; between two phases of a layer the host puts a barrier
 * (every part of phase p returns before any part of phase p+1 is called). No result depends on the number of parts. */
#ifndef QSA_STEP_H
#define QSA_STEP_H

#include <qsa/cache.h>

QSA_BEGIN_DECLS

typedef struct qsa_step qsa_step;

enum { QSA_PHASES = 5 }; /* append and pool; scan; select and emit; q.k of rows that parts share; attend */

/* n consecutive new tokens of one sequence. */
typedef struct qsa_entry {
    qsa_seq seq;
    int64_t position;          /* of the first token: the frontier; for a sequence never fed, its anchor-to-be */
    uint32_t tokens;           /* at least 1 */
    const qsa_triple *triples; /* [tokens] absolute rotary positions, or NULL: t = h = w = position. Copied */
} qsa_entry;

/* A tensor of the step: element (token, head, i) is data[token * token_stride + head * head_stride + i]. Strides in
 * elements. Tokens are those of all entries in order. */
typedef struct qsa_strided {
    const float *data;
    size_t token_stride;
    size_t head_stride; /* where a tensor has one head, any */
} qsa_strided;

/* What the projections gave, before any norm or rotation. Must stay valid and unchanged until the layer's last phase.
 */
typedef struct qsa_tensors {
    qsa_strided q;       /* q_heads x head_dim */
    qsa_strided k;       /* kv_heads x head_dim */
    qsa_strided v;       /* kv_heads x head_dim */
    qsa_strided index_q; /* index_heads x index_dim */
    qsa_strided raw_key; /* index_dim */
} qsa_tensors;

/* Where attention output goes: element (token, head, i) as above. data NULL: no output is wanted; the tokens are stored
 * and pooled, their queries are not run, and q and index_q are not read. What is stored does not depend on it. */
typedef struct qsa_output {
    float *data;
    size_t token_stride;
    size_t head_stride;
} qsa_output;

/* Begins a step and reserves pages and working memory. The step belongs to the cache; there is one at a time.
 * Errors: QSA_E_HOLE, QSA_E_STORED (naming entry, expected and found position), QSA_E_SEQUENCE (unknown, or twice),
 * QSA_E_ARGUMENT (no entry, an empty entry), QSA_E_LIMIT (more than max_step_tokens; position or triple out of range),
 * QSA_E_FULL (pages), QSA_E_BUSY (a step is open). */
QSA_API qsa_status qsa_step_begin(qsa_cache *cache, const qsa_entry *entries, size_t n, qsa_step **out_step);

/* Announces a layer; each layer once, in any order. tensors and out are copied, what they point to is not.
 * Errors: QSA_E_ORDER, QSA_E_ARGUMENT, or the step's sticky error. */
QSA_API qsa_status qsa_layer_begin(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out);

/* One part of one phase of the announced layer; `parts` is the same in all its phases. Sets the floating point
 * environment it needs and restores the caller's. Errors: QSA_E_ORDER, QSA_E_ARGUMENT, or the sticky error as far as it
 * is known. */
QSA_API qsa_status qsa_layer_phase(qsa_step *step, uint32_t phase, uint32_t part, uint32_t parts);

/* A whole layer on the calling thread: begin, then all phases in one part. */
QSA_API qsa_status qsa_step_layer(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out);

/* Publishes the step. keep [entries]: how many tokens of each entry to keep (verified drafts), 0 .. tokens;
 * NULL: all. The step is gone afterwards, whatever the status.
 * Errors: the sticky error, QSA_E_ORDER (a layer missing or unfinished), QSA_E_ARGUMENT (keep > tokens): as abort. */
QSA_API qsa_status qsa_step_commit(qsa_step *step, const uint32_t *keep);

/* Drops the step: nothing happened. */
QSA_API void qsa_step_abort(qsa_step *step);

/* Groups that token `token` (index within the step) chose in the layer whose last phase has just run; ascending,
 * counted from the sequence's anchor. out_groups has room for budget / ratio. For verification and tracing.
 * Errors: QSA_E_ORDER (no finished layer, or one without output), QSA_E_ARGUMENT, the sticky error. */
QSA_API qsa_status qsa_step_selection(const qsa_step *step, uint32_t token, uint32_t *out_groups, uint32_t *out_n);

QSA_END_DECLS
#endif
