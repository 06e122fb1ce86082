/* SPDX-License-Identifier: Apache-2.0 */
/* A step: one forward pass over any mix of sequences, prompt chunks and single tokens.
 *
 *   qsa_step_begin -> for each layer: qsa_layer_begin, phases 0 .. QSA_PHASES-1 -> qsa_step_commit or qsa_step_abort
 *
 * begin checks every position and reserves all memory; after it only bad input (QSA_E_NONFINITE) or a device can fail.
 * Errors are sticky: the one reported is the lowest by (layer, entry, token, tensor), whatever the threads did; later
 * phases do nothing, and commit returns it and acts as abort. Until commit no sequence has changed.
 *
 * The library starts no threads: bring your own. Each phase of a layer is divided into parts, any number up to
 * QSA_MAX_PARTS; a part is one call, from any thread, concurrently or in any order. Between two phases the host puts a
 * barrier: every part of phase p returns before any part of phase p+1 is called. No result depends on the parts. */
#ifndef QSA_STEP_H
#define QSA_STEP_H

#include <qsa/cache.h>

QSA_BEGIN_DECLS

typedef struct qsa_step qsa_step;

enum { QSA_PHASES = 5 }; /* append and pool; scan; select; QK^T of queries that parts share; attend */

/* Consecutive new tokens of one sequence. */
typedef struct qsa_entry {
    qsa_seq seq;
    int64_t
        position;    /* of the first token: the frontier; a first step may begin at any position, which is the anchor */
    uint32_t tokens; /* at least 1 */
    const qsa_triple *triples; /* [tokens], absolute; NULL: t = h = w = position. Copied */
} qsa_entry;

/* A tensor of the step: element (token, head, i) is data[token * token_stride + head * head_stride + i], strides in
 * floats. Tokens are those of all entries, in order. */
typedef struct qsa_strided {
    const float *data;
    size_t token_stride;
    size_t head_stride; /* unused if there is one head */
} qsa_strided;

/* The projections of a layer, before norm and rotation. Valid and unchanged until the layer's last phase. */
typedef struct qsa_tensors {
    qsa_strided q;       /* q_heads x head_dim */
    qsa_strided k;       /* kv_heads x head_dim */
    qsa_strided v;       /* kv_heads x head_dim */
    qsa_strided index_q; /* index_heads x index_dim */
    qsa_strided raw_key; /* index_dim */
} qsa_tensors;

/* Attention output, addressed likewise. data NULL: the tokens only update the cache, their outputs are not computed,
 * and q and index_q are not read. */
typedef struct qsa_output {
    float *data;
    size_t token_stride;
    size_t head_stride;
} qsa_output;

/* Begins a step and reserves its pages. entries [n]. The step belongs to the cache, one at a time.
 * Errors: QSA_E_HOLE, QSA_E_STORED (naming entry, expected and found position), QSA_E_SEQUENCE (unknown, or twice),
 * QSA_E_ARGUMENT (no entry, an empty entry), QSA_E_LIMIT (more than max_step_tokens; position or triple out of range),
 * QSA_E_FULL (pages), QSA_E_BUSY (a step is open). */
QSA_API qsa_status qsa_step_begin(qsa_cache *cache, const qsa_entry *entries, size_t n, qsa_step **out_step);

/* Announces a layer: each layer once, in any order. tensors and out are copied, the data they point to is not.
 * Errors: QSA_E_ARGUMENT, QSA_E_ORDER, the sticky error. */
QSA_API qsa_status qsa_layer_begin(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out);

/* One part of one phase of the announced layer; `parts` is the same in all phases of the layer. Sets the floating-point
 * environment and restores the caller's. Errors: QSA_E_ARGUMENT, QSA_E_ORDER, the sticky error if it is known yet. */
QSA_API qsa_status qsa_layer_phase(qsa_step *step, uint32_t phase, uint32_t part, uint32_t parts);

/* A whole layer on the calling thread: begin, then all phases in one part. Errors: those of the two. */
QSA_API qsa_status qsa_step_layer(qsa_step *step, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out);

/* Publishes the step and ends it, whatever the status. keep [entries]: tokens to keep of each entry, 0 .. tokens
 * (accepted drafts); NULL: all. On an error it acts as abort.
 * Errors: QSA_E_ARGUMENT (keep > tokens), QSA_E_ORDER (a layer missing or unfinished), the sticky error. */
QSA_API qsa_status qsa_step_commit(qsa_step *step, const uint32_t *keep);

/* Ends the step without a trace. */
QSA_API void qsa_step_abort(qsa_step *step);

/* The groups that token `token` of the step selected in the layer whose last phase has just run: ascending, counted
 * from the sequence's anchor. out_groups has room for budget / ratio. For verification and tracing. Errors:
 * QSA_E_ARGUMENT, QSA_E_ORDER (no finished layer, or one without output), the sticky error. */
QSA_API qsa_status qsa_step_selection(const qsa_step *step, uint32_t token, uint32_t *out_groups, uint32_t *out_n);

QSA_END_DECLS
#endif
