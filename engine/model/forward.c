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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_THREADS = 4 };

struct forward {
    const qsa_model *model;
    qsa_ggml_pass *pass;
    ggml_gallocr_t allocator;
    struct ggml_threadpool *pool;
    int threads;
    part_clock *clock; /* NULL: nobody takes the time */
    void *meta;        /* names and shapes of one graph */
    size_t meta_bytes;
    unsigned char *params;
    void *work; /* ggml's scratch */
    size_t work_bytes;

    /* the prepared batch */
    struct ggml_context *context;
    struct ggml_cgraph *graph;
    struct ggml_cplan plan;
    forward_graph ends;
    uint32_t tokens;
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
    const qsa_status status = thread_probe((uint32_t)f->threads - 1);
    if (status != QSA_OK) {
        return status;
    }
    struct ggml_threadpool_params params = ggml_threadpool_params_default(f->threads);
    params.poll = 0; /* idle workers sleep */
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    f->pool = ggml_threadpool_new(&params);
    fesetenv(&callers);
    return f->pool == NULL ? no_memory("a pool of threads", 0) : QSA_OK;
}

static qsa_status allocate_fixed(forward *f)
{
    const size_t nodes = graph_nodes(&f->model->shape), params = graph_params_bytes(&f->model->shape);
    f->meta_bytes = nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false);
    f->meta = malloc(f->meta_bytes);
    f->params = malloc(params);
    f->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    if (f->meta == NULL || f->params == NULL || f->allocator == NULL) {
        return no_memory("a graph", f->meta_bytes + params);
    }
    return QSA_OK;
}

static qsa_status reserve(forward *f, uint32_t chunk)
{
    const forward_batch batch = {.tokens = chunk, .wanted_count = 1};
    return forward_prepare(f, &batch);
}

static void enter_phase(void *user, uint32_t phase)
{
    static const qsa_model_part parts[QSA_PHASES] = {QSA_PART_QSA_APPEND, QSA_PART_QSA_SCAN, QSA_PART_QSA_SELECT,
                                                     QSA_PART_QSA_ATTEND};
    part_clock_enter(user, parts[phase]);
}

static qsa_status create_pass(forward *f, const qsa_cache *cache)
{
    const qsa_status status = qsa_ggml_pass_create(cache, &f->pass);
    if (status != QSA_OK) {
        return engine_fail(status, "the QSA layers: %s", qsa_status_name(status));
    }
    if (f->clock != NULL) {
        qsa_ggml_pass_observe(f->pass, enter_phase, f->clock);
    }
    return QSA_OK;
}

qsa_status forward_create(const qsa_model *model, const qsa_cache *cache, uint32_t chunk, uint32_t threads,
                          part_clock *clock, forward **out_forward)
{
    forward *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return no_memory("a forward pass", sizeof *f);
    }
    f->model = model;
    f->threads = (int)forward_threads(threads);
    f->clock = clock;
    qsa_status status = create_pass(f, cache);
    if (status == QSA_OK) {
        status = allocate_fixed(f);
    }
    if (status == QSA_OK) {
        status = start_threads(f);
    }
    if (status == QSA_OK) {
        status = reserve(f, chunk);
    }
    if (status != QSA_OK) {
        forward_destroy(f);
        return status;
    }
    *out_forward = f;
    return QSA_OK;
}

void forward_destroy(forward *f)
{
    if (f == NULL) {
        return;
    }
    if (f->pool != NULL) {
        ggml_threadpool_free(f->pool);
    }
    if (f->allocator != NULL) {
        ggml_gallocr_free(f->allocator);
    }
    ggml_free(f->context);
    qsa_ggml_pass_destroy(f->pass);
    free(f->work);
    free(f->params);
    free(f->meta);
    free(f);
}

uint64_t forward_bytes(const forward *f)
{
    return ggml_gallocr_get_buffer_size(f->allocator, 0) + f->work_bytes + f->meta_bytes +
           graph_params_bytes(&f->model->shape);
}

/* ---- preparing ---- */

static qsa_status build(forward *f, const forward_batch *batch)
{
    ggml_free(f->context);
    f->context = ggml_init((struct ggml_init_params){f->meta_bytes, f->meta, true});
    if (f->context == NULL) {
        return no_memory("a graph", 0);
    }
    f->graph = ggml_new_graph_custom(f->context, graph_nodes(&f->model->shape), false);
    graph_builder builder = {
        .shape = &f->model->shape,
        .weights = &f->model->weights,
        .context = f->context,
        .graph = f->graph,
        .segments = batch->segments,
        .segment_count = batch->segment_count,
        .tokens = batch->tokens,
        .clock = f->clock,
        .params = f->params,
        .params_bytes = graph_params_bytes(&f->model->shape),
    };
    const tap_point tap = {batch->tap, &f->step};
    qsa_ggml_pass_reset(f->pass);
    return graph_build(&builder, f->pass, &tap, batch->wanted_count, &f->ends);
}

static qsa_status allocate(forward *f)
{
    if (!ggml_gallocr_alloc_graph(f->allocator, f->graph)) {
        /* What a failed allocator holds is unspecified: the next batch begins with a fresh one. */
        ggml_gallocr_free(f->allocator);
        f->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        return no_memory("the activations of a batch; a smaller chunk needs less", 0);
    }
    f->plan = ggml_graph_plan(f->graph, f->threads, f->pool);
    if (f->plan.work_size > f->work_bytes) {
        void *grown = realloc(f->work, f->plan.work_size);
        if (grown == NULL) {
            return no_memory("scratch", f->plan.work_size);
        }
        f->work = grown;
        f->work_bytes = f->plan.work_size;
    }
    f->plan.work_data = f->work;
    return QSA_OK;
}

/* Input tensors that no node reads are not allocated. */
static void fill(struct ggml_tensor *tensor, const void *ids, size_t n)
{
    if (tensor != NULL && tensor->data != NULL && ids != NULL) {
        memcpy(tensor->data, ids, n * sizeof(int32_t));
    }
}

qsa_status forward_prepare(forward *f, const forward_batch *batch)
{
    qsa_status status = build(f, batch);
    if (status == QSA_OK) {
        status = allocate(f);
    }
    if (status != QSA_OK) {
        return status;
    }
    f->tokens = batch->tokens;
    fill(f->ends.tokens, batch->ids, batch->tokens);
    fill(f->ends.ngram_rows, batch->ngram_rows, (size_t)batch->tokens * f->model->shape.ngram.heads);
    fill(f->ends.wanted, batch->wanted, batch->wanted_count);
    return QSA_OK;
}

/* ---- running ---- */

qsa_status forward_run(forward *f, qsa_step *step, const float **out_logits)
{
    f->step = step;
    qsa_ggml_pass_run(f->pass, step, f->tokens);
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    const enum ggml_status computed = ggml_graph_compute(f->graph, &f->plan);
    fesetenv(&callers);
    part_clock_enter(f->clock, QSA_PART_OTHER);
    if (computed != GGML_STATUS_SUCCESS) {
        return engine_fail(QSA_E_IO, "the graph was not computed: %s", ggml_status_to_string(computed));
    }
    const qsa_status status = qsa_ggml_pass_status(f->pass);
    if (status != QSA_OK) {
        return engine_fail(status, "%s", qsa_ggml_pass_detail(f->pass));
    }
    *out_logits = f->ends.logits == NULL ? NULL : f->ends.logits->data;
    return QSA_OK;
}
