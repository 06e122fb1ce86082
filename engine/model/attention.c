/* SPDX-License-Identifier: Apache-2.0 */
#include "model/attention.h"

#include "base/error.h"
#include "model/product.h"

#include <stdatomic.h>
#include <string.h>

/* ---- projections ---- */

typedef struct attention_arrays {
    float *q;         /* [T][heads][query D, gate D] */
    float *k, *v;     /* [T][kv heads][D] */
    float *index_q;   /* [T][index heads][index D] */
    float *raw_key;   /* [T][index D] */
    float *attention; /* [T][heads][D] */
} attention_arrays;

static attention_arrays place(const model_shape *s, size_t tokens, carver *c)
{
    const qsa_config *q = &s->qsa;
    const size_t d = q->head_dim;
    attention_arrays a;
    a.q = carve_floats(c, tokens * q->q_heads * 2 * d);
    a.k = carve_floats(c, tokens * q->kv_heads * d);
    a.v = carve_floats(c, tokens * q->kv_heads * d);
    a.index_q = carve_floats(c, tokens * q->index_heads * q->index_dim);
    a.raw_key = carve_floats(c, tokens * q->index_dim);
    a.attention = carve_floats(c, tokens * q->q_heads * d);
    return a;
}

size_t attention_scratch_bytes(const model_shape *shape, size_t tokens)
{
    carver c = {NULL, 0};
    (void)place(shape, tokens, &c);
    return c.used;
}

size_t attention_blocks_bytes(const attention_weights *w, size_t tokens)
{
    const qsa_weights *all[] = {&w->q, &w->k, &w->v, &w->index_q, &w->index_k, &w->output};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bytes = larger(bytes, product_blocks_bytes(all[i], tokens));
    return bytes;
}

static void project(pass *p, const attention_weights *w, const attention_arrays *a, bool stores_only)
{
    const product products[] = {{&w->k, a->k, 0},
                                {&w->v, a->v, 0},
                                {&w->index_k, a->raw_key, 0},
                                {&w->index_q, a->index_q, 0},
                                {&w->q, a->q, 0}};
    multiply(p, p->x, p->tokens, products, stores_only ? 3 : 5);
}

static qsa_tensors tensors_of(const qsa_config *c, const attention_arrays *a)
{
    const size_t d = c->head_dim, kv = c->kv_heads * d;
    return (qsa_tensors){
        .q = {a->q, c->q_heads * 2 * d, 2 * d},
        .k = {a->k, kv, d},
        .v = {a->v, kv, d},
        .index_q = {a->index_q, (size_t)c->index_heads * c->index_dim, c->index_dim},
        .raw_key = {a->raw_key, c->index_dim, 0},
    };
}

/* ---- libqsa's phases ---- */

enum { DETAIL_BYTES = 512 };

/* The first failure of a part; the detail was set on that part's thread. */
typedef struct failure {
    atomic_int status;
    char detail[DETAIL_BYTES];
} failure;

typedef struct phase_parts {
    uint32_t phase, parts;
    failure *failed;
} phase_parts;

static void note_failure(failure *f, qsa_status status)
{
    int none = QSA_OK;
    if (atomic_compare_exchange_strong(&f->status, &none, (int)status)) {
        strncpy(f->detail, qsa_error_detail(), DETAIL_BYTES - 1);
        f->detail[DETAIL_BYTES - 1] = '\0';
    }
}

static void task_phase(const void *context, const void *operation, size_t begin, size_t end)
{
    const phase_parts *now = operation;
    for (size_t part = begin; part < end; part++) {
        const qsa_status status =
            qsa_layer_phase(((const pass *)context)->step, now->phase, (uint32_t)part, now->parts);
        if (status != QSA_OK)
            note_failure(now->failed, status);
    }
}

/* The layer's index among the QSA layers. */
static uint32_t qsa_layer_of(const model_shape *shape, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < layer; i++)
        n += shape->kinds[i] == LAYER_QSA;
    return n;
}

static qsa_status run_phases(pass *p, uint32_t layer, const qsa_tensors *tensors, const qsa_output *out)
{
    static const qsa_model_part model_parts[QSA_PHASES] = {QSA_PART_QSA_APPEND, QSA_PART_QSA_SCAN, QSA_PART_QSA_SELECT,
                                                           QSA_PART_QSA_ATTEND, QSA_PART_QSA_ATTEND};
    ENGINE_TRY_LIBRARY(qsa_layer_begin(p->step, qsa_layer_of(p->shape, layer), tensors, out));
    failure failed = {.status = QSA_OK};
    const uint32_t parts = worker_pool_count(p->workers);
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++) {
        part_clock_enter(p->clock, model_parts[phase]);
        run_task(p, task_phase, &(phase_parts){phase, parts, &failed}, parts, 1);
    }
    const qsa_status status = (qsa_status)atomic_load(&failed.status);
    return status == QSA_OK ? QSA_OK : engine_fail(status, "%s", failed.detail);
}

/* ---- the layer ---- */

qsa_status attention_store(pass *p, uint32_t layer)
{
    carver c = {p->scratch, 0};
    const attention_arrays a = place(p->shape, p->tokens, &c);
    project(p, &p->weights->layers[layer].attention, &a, true);
    const qsa_tensors tensors = tensors_of(&p->shape->qsa, &a);
    return run_phases(p, layer, &tensors, &(qsa_output){NULL, 0, 0});
}

qsa_status attention_layer(pass *p, uint32_t layer)
{
    const qsa_config *config = &p->shape->qsa;
    const attention_weights *w = &p->weights->layers[layer].attention;
    const size_t d = config->head_dim, heads = config->q_heads;
    carver c = {p->scratch, 0};
    const attention_arrays a = place(p->shape, p->tokens, &c);
    project(p, w, &a, false);
    const qsa_tensors tensors = tensors_of(config, &a);
    const qsa_output output = {a.attention, heads * d, d};
    ENGINE_TRY(run_phases(p, layer, &tensors, &output));
    if (p->tap != NULL)
        p->tap->layer(p->tap->user, layer, p->tokens, &tensors, &output, p->step);
    part_clock_enter(p->clock, QSA_PART_QSA_OUTPUT);
    const ops_gate gate = {a.q + d, heads * 2 * d, 2 * d, heads, d, a.attention};
    run_task(p, task_gate, &gate, p->tokens * heads, rows_grain(d));
    multiply(p, a.attention, p->tokens, &(product){&w->output, p->y, 0}, 1);
    return QSA_OK;
}
