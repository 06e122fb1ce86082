/* SPDX-License-Identifier: Apache-2.0 */
/* sysconf is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/forward.h"

#include "base/error.h"
#include "model/graph.h"
#include "model/thread_probe.h"

#include <fenv.h>
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_THREADS = 4 };

/* Of each number of tokens and of wanted logits: a chunk, a prompt's last one, one token, a few drafts. */
enum { KEPT_GRAPHS = 6 };

typedef struct kept_graph {
    uint64_t used; /* number of the batch that ran it last; 0: there is none */
    uint32_t tokens, wanted;
    bool tapped;
    void *meta;            /* names and shapes */
    unsigned char *params; /* of custom nodes */
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    struct ggml_cplan plan;
    forward_graph ends;
} kept_graph;

struct forward {
    const qsa_model *model;
    qsa_ggml_pass *pass;
    ggml_gallocr_t allocator;
    struct ggml_threadpool *pool;
    lone_products *products;
    int threads;
    part_clock *clock; /* NULL: nobody takes the time */
    kept_graph kept[KEPT_GRAPHS];
    uint64_t batches, graphs_built;
    void *work; /* ggml's scratch */
    size_t work_bytes;

    /* the prepared batch */
    kept_graph *now;
    batch_layout layout;
    qsa_step *step; /* for the tap */
};

/* ---- life ---- */

static qsa_status no_memory(const char *what, size_t bytes)
{
    return engine_fail(QSA_E_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
}

uint32_t forward_threads(uint32_t asked)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    long most = online < LEAST_THREADS ? LEAST_THREADS : online;
    most = most > GGML_MAX_N_THREADS ? GGML_MAX_N_THREADS : most;
    return asked < (unsigned long)most ? asked : (uint32_t)most;
}

/* Workers inherit the floating point environment of the thread that starts them. */
static qsa_status start_threads(forward *f)
{
    ENGINE_TRY(thread_probe((uint32_t)f->threads - 1));
    struct ggml_threadpool_params params = ggml_threadpool_params_default(f->threads);
    params.poll = 0; /* idle workers sleep */
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    f->pool = ggml_threadpool_new(&params);
    fesetenv(&callers);
    return f->pool == NULL ? no_memory("a pool of threads", 0) : QSA_OK;
}

static qsa_status reserve(forward *f, uint32_t chunk)
{
    const forward_batch batch = {.tokens = chunk, .wanted_count = 1};
    return forward_prepare(f, &batch);
}

static void enter_phase(void *user, uint32_t phase)
{
    static const qsa_model_part parts[QSA_PHASES] = {QSA_PART_QSA_APPEND, QSA_PART_QSA_SCAN, QSA_PART_QSA_SELECT,
                                                     QSA_PART_QSA_ATTEND, QSA_PART_QSA_ATTEND};
    part_clock_enter(user, parts[phase]);
}

static qsa_status create_pass(forward *f, const qsa_cache *cache)
{
    const qsa_status status = qsa_ggml_pass_create(cache, &f->pass);
    if (status != QSA_OK)
        return engine_fail(status, "the QSA layers: %s", qsa_status_name(status));
    if (f->clock != NULL)
        qsa_ggml_pass_observe(f->pass, enter_phase, f->clock);
    return QSA_OK;
}

qsa_status forward_create(const qsa_model *model, const qsa_cache *cache, uint32_t chunk, uint32_t threads,
                          part_clock *clock, forward **out_forward)
{
    forward *f = calloc(1, sizeof *f);
    if (f == NULL)
        return no_memory("a forward pass", sizeof *f);
    f->model = model;
    f->threads = (int)forward_threads(threads);
    f->clock = clock;
    qsa_status status = create_pass(f, cache);
    f->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    if (status == QSA_OK && f->allocator == NULL)
        status = no_memory("an allocator", 0);
    if (status == QSA_OK)
        status = start_threads(f);
    if (status == QSA_OK)
        status = lone_products_create(f->threads, &f->products);
    if (status == QSA_OK)
        status = reserve(f, chunk);
    if (status != QSA_OK) {
        forward_destroy(f);
        return status;
    }
    *out_forward = f;
    return QSA_OK;
}

void forward_destroy(forward *f)
{
    if (f == NULL)
        return;
    if (f->pool != NULL)
        ggml_threadpool_free(f->pool);
    if (f->allocator != NULL)
        ggml_gallocr_free(f->allocator);
    for (size_t i = 0; i < KEPT_GRAPHS; i++) {
        ggml_free(f->kept[i].context);
        free(f->kept[i].meta);
        free(f->kept[i].params);
    }
    lone_products_destroy(f->products);
    qsa_ggml_pass_destroy(f->pass);
    free(f->work);
    free(f);
}

static size_t meta_bytes(const forward *f)
{
    const size_t nodes = graph_nodes(&f->model->shape);
    return nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false);
}

uint64_t forward_bytes(const forward *f)
{
    const size_t each = meta_bytes(f) + graph_params_bytes(&f->model->shape);
    uint64_t bytes = ggml_gallocr_get_buffer_size(f->allocator, 0) + f->work_bytes + lone_products_bytes(f->products);
    for (size_t i = 0; i < KEPT_GRAPHS; i++)
        bytes += f->kept[i].meta == NULL ? 0 : each;
    return bytes;
}

uint64_t forward_graphs_built(const forward *f)
{
    return f->graphs_built;
}

uint32_t forward_query_layers(const forward *f)
{
    return f->now->ends.query_layers;
}

/* ---- graphs ---- */

static bool serves(const kept_graph *g, const forward_batch *batch)
{
    return g->used != 0 && g->tokens == batch->tokens && g->wanted == batch->wanted_count &&
           g->tapped == (batch->tap != NULL);
}

/* The graph of such batches, or where one can be built: the place that was not used for longest. */
static kept_graph *find_graph(forward *f, const forward_batch *batch)
{
    kept_graph *oldest = &f->kept[0];
    for (size_t i = 0; i < KEPT_GRAPHS; i++) {
        if (serves(&f->kept[i], batch))
            return &f->kept[i];
        oldest = f->kept[i].used < oldest->used ? &f->kept[i] : oldest;
    }
    oldest->used = 0;
    return oldest;
}

static void forget_graphs(forward *f)
{
    for (size_t i = 0; i < KEPT_GRAPHS; i++)
        f->kept[i].used = 0;
}

static qsa_status make_room(const forward *f, kept_graph *g)
{
    const size_t meta = meta_bytes(f), params = graph_params_bytes(&f->model->shape);
    ggml_free(g->context);
    g->context = NULL;
    if (g->meta == NULL)
        g->meta = malloc(meta);
    if (g->params == NULL)
        g->params = malloc(params);
    if (g->meta != NULL && g->params != NULL)
        g->context = ggml_init((struct ggml_init_params){meta, g->meta, true});
    return g->context == NULL ? no_memory("a graph", meta + params) : QSA_OK;
}

static qsa_status build(forward *f, kept_graph *g, const forward_batch *batch)
{
    ENGINE_TRY(make_room(f, g));
    g->graph = ggml_new_graph_custom(g->context, graph_nodes(&f->model->shape), false);
    graph_builder builder = {
        .shape = &f->model->shape,
        .weights = &f->model->weights,
        .context = g->context,
        .graph = g->graph,
        .layout = &f->layout,
        .tokens = batch->tokens,
        .products = f->products,
        .clock = f->clock,
        .params = g->params,
        .params_bytes = graph_params_bytes(&f->model->shape),
    };
    const tap_point tap = {batch->tap, &f->step};
    f->graphs_built++;
    qsa_ggml_pass_reset(f->pass);
    return graph_build(&builder, f->pass, &tap, batch->wanted_count, &g->ends);
}

static qsa_status allocate(forward *f, kept_graph *g)
{
    const size_t before = ggml_gallocr_get_buffer_size(f->allocator, 0);
    if (!ggml_gallocr_alloc_graph(f->allocator, g->graph)) {
        /* What a failed allocator holds is unspecified: the next batch begins with a fresh one. */
        forget_graphs(f);
        ggml_gallocr_free(f->allocator);
        f->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        return no_memory("the activations of a batch; a smaller chunk needs less", 0);
    }
    if (ggml_gallocr_get_buffer_size(f->allocator, 0) != before)
        forget_graphs(f); /* the buffer has moved from under them */
    g->plan = ggml_graph_plan(g->graph, f->threads, f->pool);
    if (g->plan.work_size > f->work_bytes) {
        void *grown = realloc(f->work, g->plan.work_size);
        if (grown == NULL)
            return no_memory("scratch", g->plan.work_size);
        f->work = grown;
        f->work_bytes = g->plan.work_size;
    }
    return QSA_OK;
}

static qsa_status new_graph(forward *f, kept_graph *g, const forward_batch *batch)
{
    qsa_status status = build(f, g, batch);
    if (status == QSA_OK)
        status = allocate(f, g);
    g->tokens = batch->tokens;
    g->wanted = batch->wanted_count;
    g->tapped = batch->tap != NULL;
    return status;
}

/* ---- preparing ---- */

/* Input tensors that no node reads are not allocated. */
static void fill(struct ggml_tensor *tensor, const void *ids, size_t n)
{
    if (tensor != NULL && tensor->data != NULL && ids != NULL)
        memcpy(tensor->data, ids, n * sizeof(int32_t));
}

qsa_status forward_prepare(forward *f, const forward_batch *batch)
{
    kept_graph *g = find_graph(f, batch);
    if (g->used == 0)
        ENGINE_TRY(new_graph(f, g, batch));
    g->used = ++f->batches;
    f->now = g;
    f->layout = batch->layout;
    fill(g->ends.tokens, batch->ids, batch->tokens);
    fill(g->ends.ngram_rows, batch->ngram_rows, (size_t)batch->tokens * f->model->shape.ngram.heads);
    fill(g->ends.wanted, batch->wanted, batch->wanted_count);
    return QSA_OK;
}

/* ---- running ---- */

qsa_status forward_run(forward *f, qsa_step *step, const float **out_logits)
{
    f->step = step;
    qsa_ggml_pass_run(f->pass, step, f->now->tokens);
    f->now->plan.work_data = f->work;
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    const enum ggml_status computed = ggml_graph_compute(f->now->graph, &f->now->plan);
    fesetenv(&callers);
    part_clock_enter(f->clock, QSA_PART_OTHER);
    if (computed != GGML_STATUS_SUCCESS)
        return engine_fail(QSA_E_IO, "the graph was not computed: %s", ggml_status_to_string(computed));
    const qsa_status status = qsa_ggml_pass_status(f->pass);
    if (status != QSA_OK)
        return engine_fail(status, "%s", qsa_ggml_pass_detail(f->pass));
    *out_logits = f->now->ends.logits == NULL ? NULL : f->now->ends.logits->data;
    return QSA_OK;
}
