/* SPDX-License-Identifier: Apache-2.0 */
/* QSA inside a ggml graph.
 *
 * A qsa_ggml_pass puts libqsa's layers into graphs that run on ggml's CPU threads. A layer becomes a chain of custom
 * nodes: one that announces the layer, then one for each of its phases. Every thread of the graph calls a node, and
 * takes one part of the phase; ggml's own barrier between two nodes is the barrier that libqsa asks for between two
 * phases. So libqsa needs no threads of its own, and no second pool competes with ggml's.
 *
 *     qsa_ggml_pass_create(cache, &pass);                         once
 *     ...
 *     qsa_ggml_pass_reset(pass);                                  for each graph that is built
 *     qsa_ggml_layer(pass, context, layer, &sources, &attention); for each QSA layer, while the graph is built
 *     qsa_step_begin(cache, entries, n, &step);
 *     qsa_ggml_pass_run(pass, step, tokens);
 *     ggml_graph_compute(graph, &plan);
 *     status = qsa_ggml_pass_status(pass);
 *     if (status == QSA_OK) status = qsa_step_commit(step, NULL); else qsa_step_abort(step);
 *
 * Errors. Shapes are checked while the graph is built, so nothing aborts while it runs. Nodes cannot return anything:
 * the first status that is not QSA_OK stays in the pass, later nodes of any layer do nothing, and what the graph
 * computes from there on is meaningless. Where several parts of a phase fail at once, qsa_step_commit in place of
 * qsa_step_abort acts as abort and tells the lowest error, whatever the threads did.
 *
 * Memory. Every node names all sources, so an allocator that reuses the memory of tensors without further readers keeps
 * them until the layer's last phase. Pass and cache must outlive the graph's last run.
 *
 * Needs libqsa's public headers and ggml 0.25 or newer; used by one thread at a time, the nodes excepted. */
#ifndef QSA_GGML_H
#define QSA_GGML_H

#include <ggml.h>
#include <qsa/qsa.h>

QSA_BEGIN_DECLS

typedef struct qsa_ggml_pass qsa_ggml_pass;

/* What the projections gave, before any norm or rotation; fastest dimension first, f32. Elements of one head must be
 * adjacent; heads and tokens may have any strides, so a view into an interleaved or fused projection needs no copy. */
typedef struct qsa_ggml_sources {
    struct ggml_tensor *q;       /* [head_dim, q_heads, tokens] */
    struct ggml_tensor *k;       /* [head_dim, kv_heads, tokens] */
    struct ggml_tensor *v;       /* [head_dim, kv_heads, tokens] */
    struct ggml_tensor *index_q; /* [index_dim, index_heads, tokens] */
    struct ggml_tensor *raw_key; /* [index_dim, tokens] */
} qsa_ggml_sources;

/* Nodes that qsa_ggml_layer adds to a graph; for the size of a graph and its context. */
enum { QSA_GGML_LAYER_NODES = 1 + QSA_PHASES };

/* A pass for graphs of this cache's layers. Errors: QSA_E_ARGUMENT, QSA_E_MEMORY. */
qsa_status qsa_ggml_pass_create(const qsa_cache *cache, qsa_ggml_pass **out_pass);
void qsa_ggml_pass_destroy(qsa_ggml_pass *pass); /* NULL is legal */

/* Another graph is built from here on. Those built before may still run, one at a time. */
void qsa_ggml_pass_reset(qsa_ggml_pass *pass);

/* Adds one QSA layer to the graph that is being built in context. *out_attention: [head_dim * q_heads, tokens], before
 * any gate or output projection; what depends on it runs after the layer's last phase.
 * Errors: QSA_E_ARGUMENT (a source of another type, shape or layout, by name), QSA_E_ORDER (a layer twice). */
qsa_status qsa_ggml_layer(qsa_ggml_pass *pass, struct ggml_context *context, uint32_t layer,
                          const qsa_ggml_sources *sources, struct ggml_tensor **out_attention);

/* As qsa_ggml_layer, without queries: the tokens are stored and pooled, and what is stored is the same. Only k, v and
 * raw_key are read; q and index_q may be NULL. For tokens of whose output in this layer nothing else depends: a
 * prompt's, in the last layer. *out_done has no meaning but that what depends on it runs after the layer's last phase.
 * Errors: as qsa_ggml_layer. */
qsa_status qsa_ggml_layer_store(qsa_ggml_pass *pass, struct ggml_context *context, uint32_t layer,
                                const qsa_ggml_sources *sources, struct ggml_tensor **out_done);

/* The step that the next run of the graph belongs to, and the tokens of all its entries; clears the status. */
void qsa_ggml_pass_run(qsa_ggml_pass *pass, qsa_step *step, uint32_t tokens);

/* For profiles: phase_begins is called on one of the graph's threads before each phase of a layer, when the phase
 * before it, or what the layer needs, is complete. NULL (as created): nobody is told. */
void qsa_ggml_pass_observe(qsa_ggml_pass *pass, void (*phase_begins)(void *user, uint32_t phase), void *user);

/* The first status that was not QSA_OK since qsa_ggml_pass_run; QSA_OK if all went well. */
qsa_status qsa_ggml_pass_status(const qsa_ggml_pass *pass);

/* One line about that status, for example libqsa's own; "" after QSA_OK. Belongs to the pass. */
const char *qsa_ggml_pass_detail(const qsa_ggml_pass *pass);

QSA_END_DECLS
#endif
