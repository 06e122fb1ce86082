/* SPDX-License-Identifier: Apache-2.0 */
/* QSA inside a ggml graph.
 *
 * A qsa_ggml_pass adds libqsa's layers to graphs that run on ggml's CPU threads. A layer becomes a chain of custom
 * nodes: one that begins the layer, then one per phase. Every thread of the graph runs a node and takes one part of the
 * phase; ggml's barrier between two nodes is the barrier that libqsa requires between two phases. So libqsa needs no
 * threads of its own, and no second thread pool competes with ggml's.
 *
 *     qsa_ggml_pass_create(cache, &pass);                         once per cache
 *     ...
 *     qsa_ggml_pass_reset(pass);                                  before each graph is built
 *     qsa_ggml_layer(pass, context, layer, &sources, &attention); for each QSA layer, while building
 *     qsa_step_begin(cache, entries, n, &step);
 *     qsa_ggml_pass_run(pass, step, tokens);
 *     ggml_graph_compute(graph, &plan);
 *     status = qsa_ggml_pass_status(pass);
 *     if (status == QSA_OK) status = qsa_step_commit(step, NULL); else qsa_step_abort(step);
 *
 * Errors. Shapes are checked while the graph is built, so nothing aborts while it runs. Nodes cannot return a status:
 * the pass keeps the first one that is not QSA_OK, later nodes of all layers do nothing, and the output of the graph is
 * undefined. If several parts of a phase fail, the first status depends on thread timing; qsa_step_commit instead of
 * qsa_step_abort also aborts, and returns the lowest error, which does not.
 *
 * Memory. Every node lists all sources, so a graph allocator does not reuse their memory before the layer's last phase.
 * Pass and cache must outlive the graph's last run.
 *
 * Needs libqsa's public headers and ggml 0.25 or newer. Apart from the nodes, one thread at a time may use a pass. */
#ifndef QSA_GGML_H
#define QSA_GGML_H

#include <ggml.h>
#include <qsa/qsa.h>

QSA_BEGIN_DECLS

typedef struct qsa_ggml_pass qsa_ggml_pass;

/* The outputs of the projections, before norm and rotary embedding: f32, fastest dimension first. A head must be
 * contiguous; heads and tokens may have any strides, so a view into a fused projection needs no copy. */
typedef struct qsa_ggml_sources {
    struct ggml_tensor *q;       /* [head_dim, q_heads, tokens] */
    struct ggml_tensor *k;       /* [head_dim, kv_heads, tokens] */
    struct ggml_tensor *v;       /* [head_dim, kv_heads, tokens] */
    struct ggml_tensor *index_q; /* [index_dim, index_heads, tokens] */
    struct ggml_tensor *raw_key; /* [index_dim, tokens] */
} qsa_ggml_sources;

/* Nodes that qsa_ggml_layer adds, to size a graph and its context. */
enum { QSA_GGML_LAYER_NODES = 1 + QSA_PHASES };

/* A pass for graphs with this cache's layers. Errors: QSA_E_ARGUMENT (NULL), QSA_E_MEMORY. */
qsa_status qsa_ggml_pass_create(const qsa_cache *cache, qsa_ggml_pass **out_pass);
void qsa_ggml_pass_destroy(qsa_ggml_pass *pass); /* NULL is legal */

/* Starts building another graph. Graphs built before may still run, one at a time. */
void qsa_ggml_pass_reset(qsa_ggml_pass *pass);

/* Adds one QSA layer to the graph being built in context. *out_attention: [head_dim * q_heads, tokens], before gate and
 * output projection; nodes that depend on it run after the layer's last phase.
 * Errors: QSA_E_ARGUMENT (type, shape or layout of a source; names it), QSA_E_ORDER (a layer twice). */
qsa_status qsa_ggml_layer(qsa_ggml_pass *pass, struct ggml_context *context, uint32_t layer,
                          const qsa_ggml_sources *sources, struct ggml_tensor **out_attention);

/* As qsa_ggml_layer, but the tokens only update the cache; their outputs are not computed. Reads k, v and raw_key; q
 * and index_q may be NULL. The cache contents are the same. For tokens whose output in this layer is not needed: a
 * prompt's, in the last layer. *out_done carries no data; nodes that depend on it run after the layer's last phase.
 * Errors: as qsa_ggml_layer. */
qsa_status qsa_ggml_layer_store(qsa_ggml_pass *pass, struct ggml_context *context, uint32_t layer,
                                const qsa_ggml_sources *sources, struct ggml_tensor **out_done);

/* Sets the step of the graph's next run, and the total tokens of its entries; clears the status. */
void qsa_ggml_pass_run(qsa_ggml_pass *pass, qsa_step *step, uint32_t tokens);

/* For profiling: phase_begins is called on one of the graph's threads before each phase of a layer, after the phase
 * before it, or the layer's sources, are complete. NULL, the default: no observer. */
void qsa_ggml_pass_observe(qsa_ggml_pass *pass, void (*phase_begins)(void *user, uint32_t phase), void *user);

/* The first status that was not QSA_OK since qsa_ggml_pass_run; QSA_OK if there was none. */
qsa_status qsa_ggml_pass_status(const qsa_ggml_pass *pass);

/* One line about that status; if libqsa failed, its detail. "" after QSA_OK. Belongs to the pass. */
const char *qsa_ggml_pass_detail(const qsa_ggml_pass *pass);

QSA_END_DECLS
#endif
