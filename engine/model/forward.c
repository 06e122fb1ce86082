/* SPDX-License-Identifier: Apache-2.0 */
/* sysconf is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/forward.h"

#include "base/error.h"
#include "model/attention.h"
#include "model/delta.h"
#include "model/experts.h"
#include "model/hyper.h"
#include "model/ngram.h"
#include "model/product.h"
#include "model/rows.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_THREADS = 4, MOST_THREADS = 512 };

struct forward {
    const qsa_model *model;
    pass pass;
    void *arrays; /* the arrays of the pass */
    size_t array_bytes;
    float *logits; /* [logits_count][vocabulary]: the most that a batch has wanted so far */
    uint32_t logits_count;
    forward_batch batch; /* the prepared batch */
};

/* ---- memory ---- */

static size_t layer_scratch_bytes(const model_shape *s, uint32_t layer, size_t tokens)
{
    const size_t mixer =
        s->kinds[layer] == LAYER_QSA ? attention_scratch_bytes(s, tokens) : delta_scratch_bytes(s, tokens);
    return larger(mixer, s->has_ngram[layer] ? ngram_scratch_bytes(s, tokens) : 0);
}

static size_t scratch_bytes(const model_shape *s, size_t tokens)
{
    size_t bytes = larger(hyper_scratch_bytes(s, tokens), experts_scratch_bytes(s, tokens));
    for (uint32_t i = 0; i < s->layers; i++)
        bytes = larger(bytes, layer_scratch_bytes(s, i, tokens));
    return bytes;
}

static size_t layer_blocks_bytes(const model_shape *s, const layer_weights *w, uint32_t layer, size_t tokens)
{
    size_t bytes = s->kinds[layer] == LAYER_QSA ? attention_blocks_bytes(&w->attention, tokens)
                                                : delta_blocks_bytes(&w->delta, tokens);
    bytes = larger(bytes, hyper_blocks_bytes(&w->hyper_mixer, tokens));
    bytes = larger(bytes, hyper_blocks_bytes(&w->hyper_experts, tokens));
    bytes = larger(bytes, s->has_ngram[layer] ? ngram_blocks_bytes(&w->ngram, tokens) : 0);
    return larger(bytes, experts_blocks_bytes(s, &w->experts, tokens));
}

static size_t blocks_bytes(const model_shape *s, const model_weights *w, size_t tokens)
{
    size_t bytes = larger(hyper_blocks_bytes(&w->hyper_head, tokens), product_blocks_bytes(&w->output, tokens));
    for (uint32_t i = 0; i < s->layers; i++)
        bytes = larger(bytes, layer_blocks_bytes(s, &w->layers[i], i, tokens));
    return bytes;
}

static void place(pass *p, size_t tokens, carver *c)
{
    const model_shape *s = p->shape;
    const size_t e = s->embedding;
    p->residual = carve_floats(c, tokens * s->streams * e);
    p->x = carve_floats(c, tokens * e);
    p->y = carve_floats(c, tokens * e);
    p->gains = carve_floats(c, tokens * s->streams);
    p->ngram = s->ngram_layers > 0 ? carve_floats(c, tokens * e) : NULL;
    p->blocks = carve(c, blocks_bytes(s, p->weights, tokens), 1);
    p->scratch = carve(c, scratch_bytes(s, tokens), 1);
}

uint64_t forward_planned_bytes(const qsa_model *model, uint32_t chunk)
{
    pass planned = {.shape = &model->shape, .weights = &model->weights};
    carver c = {NULL, 0};
    place(&planned, chunk, &c);
    return c.used;
}

static qsa_status allocate(forward *f, uint32_t chunk)
{
    f->array_bytes = forward_planned_bytes(f->model, chunk);
    carver c = {f->arrays = aligned_alloc(64, f->array_bytes), 0};
    if (f->arrays == NULL)
        return engine_fail(QSA_E_MEMORY,
                           "no memory for the activations of %u tokens (%zu bytes); a smaller chunk needs less", chunk,
                           f->array_bytes);
    place(&f->pass, chunk, &c);
    return QSA_OK;
}

uint64_t forward_bytes(const forward *f)
{
    return f->array_bytes + (uint64_t)f->logits_count * f->model->shape.vocabulary * sizeof *f->logits;
}

/* ---- life ---- */

uint32_t forward_threads(uint32_t asked)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    long most = online < LEAST_THREADS ? LEAST_THREADS : online;
    most = most > MOST_THREADS ? MOST_THREADS : most;
    return asked < (unsigned long)most ? asked : (uint32_t)most;
}

uint32_t forward_best_chunk(const model_shape *shape)
{
    enum { LEAST = 512, MOST = 2048, COLUMNS = 40 /* of an expert, on average */ };
    const uint64_t tokens = (uint64_t)shape->experts * COLUMNS / shape->experts_used;
    return tokens < LEAST ? LEAST : tokens > MOST ? MOST : (uint32_t)(tokens / 256 * 256);
}

static qsa_status choose_kernels(pass *p)
{
    const char *wanted = NULL;
    p->ops = ops_choose(&wanted);
    p->products = qsa_products_choose(&wanted);
    if (p->ops == NULL || p->products == NULL)
        return engine_fail(QSA_E_UNSUPPORTED, "QSA_ISA is \"%.40s\", which this processor or build does not have",
                           wanted);
    return QSA_OK;
}

qsa_status forward_create(const qsa_model *model, uint32_t chunk, uint32_t threads, part_clock *clock,
                          forward **out_forward)
{
    forward *f = calloc(1, sizeof *f);
    if (f == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a forward pass");
    f->model = model;
    f->pass = (pass){.shape = &model->shape, .weights = &model->weights, .clock = clock};
    qsa_status status = choose_kernels(&f->pass);
    if (status == QSA_OK)
        status = worker_pool_create(forward_threads(threads), &f->pass.workers);
    if (status == QSA_OK)
        status = allocate(f, chunk);
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
    worker_pool_destroy(f->pass.workers);
    free(f->arrays);
    free(f->logits);
    free(f);
}

/* ---- preparing ---- */

qsa_status forward_prepare(forward *f, const forward_batch *batch)
{
    if (batch->wanted_count > f->logits_count) {
        const size_t bytes = (size_t)batch->wanted_count * f->model->shape.vocabulary * sizeof *f->logits;
        float *grown = realloc(f->logits, bytes);
        if (grown == NULL)
            return engine_fail(QSA_E_MEMORY, "no memory for the logits of %u tokens", batch->wanted_count);
        f->logits = grown;
        f->logits_count = batch->wanted_count;
    }
    f->batch = *batch;
    return QSA_OK;
}

/* The last layer's tokens only update the cache. */
static bool stores_last(const model_shape *s, const forward_batch *b)
{
    return b->wanted_count == 0 && b->tap == NULL && s->kinds[s->layers - 1] == LAYER_QSA;
}

uint32_t forward_query_layers(const forward *f)
{
    return f->model->shape.qsa_layers - stores_last(&f->model->shape, &f->batch);
}

/* ---- inputs: rows of the embedding and of the n-gram table ---- */

static row_lookup embedding_rows(const pass *p, const forward_batch *b)
{
    return (row_lookup){&p->weights->embedding, b->ids, b->tokens, p->shape->streams, p->residual};
}

static row_lookup table_rows(const pass *p, const forward_batch *b)
{
    return (row_lookup){&p->weights->ngram_rows, b->ngram_rows, (size_t)b->tokens * p->shape->ngram.heads, 1, p->ngram};
}

/* Before anything is computed: all rows of the batch are known, and are read from the disk side by side. */
static void fetch_inputs(const qsa_model *model, pass *p, const forward_batch *b)
{
    const row_lookup embedding = embedding_rows(p, b), table = table_rows(p, b);
    part_clock_enter(p->clock, QSA_PART_NGRAM);
    if (model->maps_table)
        rows_fetch(p, &table);
    part_clock_enter(p->clock, QSA_PART_EMBEDDING);
    if (model->maps_embedding)
        rows_fetch(p, &embedding);
}

/* The embedding in every stream. */
static void read_embedding(pass *p, const forward_batch *b)
{
    const row_lookup rows = embedding_rows(p, b);
    part_clock_enter(p->clock, QSA_PART_EMBEDDING);
    rows_look_up(p, &rows);
}

/* ---- layers ---- */

/* Moves the wanted columns, in ascending order, to the front. */
static void keep_wanted(const forward_batch *b, float *columns, size_t n)
{
    for (size_t i = 0; i < b->wanted_count; i++)
        memmove(columns + i * n, columns + b->wanted[i] * n, n * sizeof *columns);
}

/* From here on the residual, the gains and y hold only the wanted tokens. */
static void narrow(pass *p, const forward_batch *b)
{
    const size_t e = p->shape->embedding, streams = p->shape->streams;
    keep_wanted(b, p->residual, streams * e);
    keep_wanted(b, p->gains, streams);
    keep_wanted(b, p->y, e);
}

static qsa_status run_mixer(pass *p, uint32_t layer, bool stores_only)
{
    if (p->shape->kinds[layer] == LAYER_QSA) {
        part_clock_enter(p->clock, QSA_PART_QSA_PROJECTIONS);
        return stores_only ? attention_store(p, layer) : attention_layer(p, layer);
    }
    part_clock_enter(p->clock, QSA_PART_DELTA);
    delta_layer(p, layer);
    return QSA_OK;
}

static void run_experts(pass *p, uint32_t layer, size_t tokens)
{
    part_clock_enter(p->clock, QSA_PART_HYPER);
    hyper_write(p, tokens);
    hyper_read(p, &p->weights->layers[layer].hyper_experts, tokens);
    part_clock_enter(p->clock, QSA_PART_EXPERTS);
    experts_layer(p, layer, tokens);
    part_clock_enter(p->clock, QSA_PART_HYPER);
    hyper_write(p, tokens);
}

static bool is_first_with_ngrams(const model_shape *s, uint32_t layer)
{
    uint32_t first = 0;
    while (!s->has_ngram[first])
        first++;
    return layer == first;
}

/* The rows of the table are looked up by the first layer that needs them: until then the disk had time. */
static void run_ngram(pass *p, uint32_t layer, const forward_batch *b)
{
    part_clock_enter(p->clock, QSA_PART_NGRAM);
    if (is_first_with_ngrams(p->shape, layer)) {
        const row_lookup rows = table_rows(p, b);
        rows_look_up(p, &rows);
    }
    ngram_layer(p, layer);
}

/* Of the last layer, computes only what the states of later tokens and the wanted logits depend on. */
static qsa_status run_layer(pass *p, uint32_t layer, const forward_batch *b)
{
    const bool is_last = layer == p->shape->layers - 1;
    if (p->shape->has_ngram[layer])
        run_ngram(p, layer, b);
    part_clock_enter(p->clock, QSA_PART_HYPER);
    hyper_read(p, &p->weights->layers[layer].hyper_mixer, b->tokens);
    const qsa_status status = run_mixer(p, layer, is_last && stores_last(p->shape, b));
    if (status != QSA_OK || (is_last && b->wanted_count == 0))
        return status;
    if (is_last)
        narrow(p, b);
    run_experts(p, layer, is_last ? b->wanted_count : b->tokens);
    return QSA_OK;
}

static void run_head(pass *p, const forward_batch *b, float *logits)
{
    hyper_read(p, &p->weights->hyper_head, b->wanted_count);
    part_clock_enter(p->clock, QSA_PART_HEAD);
    multiply(p, p->x, b->wanted_count, &(product){&p->weights->output, logits, 0}, 1);
}

static qsa_status run_all(pass *p, const forward_batch *b, float *logits)
{
    read_embedding(p, b);
    for (uint32_t layer = 0; layer < p->shape->layers; layer++)
        ENGINE_TRY(run_layer(p, layer, b));
    if (b->wanted_count > 0)
        run_head(p, b, logits);
    return QSA_OK;
}

qsa_status forward_run(forward *f, qsa_step *step, const float **out_logits)
{
    pass *p = &f->pass;
    const forward_batch *b = &f->batch;
    p->layout = b->layout;
    p->tokens = b->tokens;
    p->tap = b->tap;
    p->step = step;
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    fetch_inputs(f->model, p, b);
    const qsa_status status = run_all(p, b, f->logits);
    fesetenv(&callers);
    part_clock_enter(p->clock, QSA_PART_OTHER);
    if (status == QSA_OK)
        *out_logits = b->wanted_count == 0 ? NULL : f->logits;
    return status;
}
