/* SPDX-License-Identifier: Apache-2.0 */
/* A forward pass: what its operations share. They run one after the other, in the order of forward.c, each on all
 * workers, and pass data through arrays that are carved from one block when the context is created. */
#ifndef QSA_ENGINE_MODEL_PASS_H
#define QSA_ENGINE_MODEL_PASS_H

#include "model/part_clock.h"
#include "model/shape.h"
#include "model/weights.h"
#include "model/worker_pool.h"
#include "ops/ops.h"

#include <products/products.h>

/* The new tokens of one session: columns [first, first + tokens) of the batch, and its recurrent state before and after
 * them (state.h). */
typedef struct batch_segment {
    uint32_t first, tokens;
    const float *before;
    float *after;
} batch_segment;

typedef struct batch_layout {
    const batch_segment *segments;
    size_t count;
} batch_layout;

typedef struct pass {
    const model_shape *shape;
    const model_weights *weights;
    const ops_table *ops;
    const qsa_products *products;
    worker_pool *workers;
    part_clock *clock; /* NULL: no profile */

    /* the batch */
    batch_layout layout;
    uint32_t tokens;
    qsa_step *step;
    const qsa_tap *tap; /* NULL: none */

    /* Arrays of all layers, for a whole chunk; T stands for tokens. */
    float *residual; /* [T][streams][E] */
    float *x, *y;    /* [T][E]: input and output of a sub-layer */
    float *gains;    /* [T][streams]: J n of the hyper-connection that computed x */
    float *ngram;    /* [T][E]: rows of the n-gram table; NULL without */
    void *blocks;    /* quantised columns of the running product */
    void *scratch;   /* arrays of the running sub-layer */
} pass;

/* ---- memory ---- */

/* Carves arrays from a block, each at a multiple of 64 bytes. With base NULL it only adds up sizes. */
typedef struct carver {
    unsigned char *base;
    size_t used;
} carver;

static inline void *carve(carver *c, size_t count, size_t size)
{
    void *array = c->base == NULL ? NULL : c->base + c->used;
    c->used += (count * size + 63) / 64 * 64;
    return array;
}

static inline float *carve_floats(carver *c, size_t count)
{
    return carve(c, count, sizeof(float));
}

static inline size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- operations ---- */

/* The operations of ops.h whose units belong to a batch: context is a pass, operation an ops_NAME. */
task_function task_norm, task_squash, task_mix, task_residual, task_unit, task_gates, task_gated_norm, task_route,
    task_swiglu, task_ngram_gate, task_ngram_add, task_gate;

/* One task on all workers. */
static inline void run_task(const pass *p, task_function *run, const void *operation, size_t units, size_t grain)
{
    worker_pool_run(p->workers, p, &(task){run, operation, units, grain}, 1);
}

/* Rows of dim numbers that make a task worth handing to a thread, for operations of about a nanosecond per number. */
static inline size_t rows_grain(size_t dim)
{
    enum { NUMBERS = 4096 };
    return dim < NUMBERS ? NUMBERS / dim : 1;
}

#endif
