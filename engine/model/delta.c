/* SPDX-License-Identifier: Apache-2.0 */
#include "model/delta.h"

#include "model/conv.h"
#include "model/product.h"
#include "model/state.h"

typedef struct delta_arrays {
    float *projected, *qkv; /* [T][channels], before and after the convolution */
    float *z, *o;           /* [T][inner] */
    float *decay, *beta;    /* [T][value heads] */
    float *kq;              /* [T][key heads] */
} delta_arrays;

static delta_arrays place(const model_shape *s, size_t tokens, carver *c)
{
    const delta_shape *d = &s->delta;
    delta_arrays a;
    a.projected = carve_floats(c, tokens * d->channels);
    a.qkv = carve_floats(c, tokens * d->channels);
    a.z = carve_floats(c, tokens * d->inner);
    a.o = carve_floats(c, tokens * d->inner);
    a.decay = carve_floats(c, tokens * d->value_heads);
    a.beta = carve_floats(c, tokens * d->value_heads);
    a.kq = carve_floats(c, tokens * d->key_heads);
    return a;
}

size_t delta_scratch_bytes(const model_shape *shape, size_t tokens)
{
    carver c = {NULL, 0};
    (void)place(shape, tokens, &c);
    return c.used;
}

size_t delta_blocks_bytes(const delta_weights *w, size_t tokens)
{
    const qsa_weights *all[] = {&w->qkv, &w->gate, &w->alpha, &w->beta, &w->output};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bytes = larger(bytes, product_blocks_bytes(all[i], tokens));
    return bytes;
}

/* ---- the recurrence ---- */

typedef struct recurrence {
    const delta_arrays *arrays;
    size_t state_offset;
} recurrence;

/* Unit: a block of columns of a value head of a session. */
static void task_recurrence(const void *context, const void *operation, size_t begin, size_t end)
{
    const pass *p = context;
    const recurrence *r = operation;
    const delta_arrays *a = r->arrays;
    const delta_shape *d = &p->shape->delta;
    const size_t blocks = d->value_heads * ops_state_blocks(d->dim), keys = (size_t)d->key_heads * d->dim;
    while (begin < end) {
        const size_t first = begin / blocks * blocks, stop = end - first < blocks ? end - first : blocks;
        const batch_segment *segment = &p->layout.segments[begin / blocks];
        const size_t token = segment->first;
        const float *q = a->qkv + token * d->channels;
        const ops_delta op = {.q = q,
                              .k = q + keys,
                              .v = q + 2 * keys,
                              .stride = d->channels,
                              .kq = a->kq + token * d->key_heads,
                              .decay = a->decay + token * d->value_heads,
                              .beta = a->beta + token * d->value_heads,
                              .before = segment->before + r->state_offset,
                              .tokens = segment->tokens,
                              .key_heads = d->key_heads,
                              .value_heads = d->value_heads,
                              .dim = d->dim,
                              .after = segment->after + r->state_offset,
                              .out = a->o + token * d->inner};
        p->ops->delta(&op, (ops_range){begin - first, stop});
        begin = first + stop;
    }
}

/* ---- the layer ---- */

static void project(pass *p, const delta_weights *w, const delta_arrays *a)
{
    const product products[] = {
        {&w->qkv, a->projected, 0}, {&w->gate, a->z, 0}, {&w->alpha, a->decay, 0}, {&w->beta, a->beta, 0}};
    multiply(p, p->x, p->tokens, products, sizeof products / sizeof *products);
}

static void prepare(pass *p, const delta_weights *w, const delta_arrays *a)
{
    const delta_shape *d = &p->shape->delta;
    const ops_unit unit = {a->qkv, a->qkv + (size_t)d->key_heads * d->dim, d->channels, d->key_heads, d->dim, a->kq};
    const ops_gates gates = {w->a, w->dt, d->value_heads, a->decay, a->beta};
    const task tasks[] = {{task_unit, &unit, (size_t)p->tokens * d->key_heads, rows_grain(d->dim)},
                          {task_gates, &gates, p->tokens, rows_grain(d->value_heads * 8)}};
    worker_pool_run(p->workers, p, tasks, 2);
}

void delta_layer(pass *p, uint32_t layer)
{
    const delta_weights *w = &p->weights->layers[layer].delta;
    const model_shape *s = p->shape;
    const delta_shape *d = &s->delta;
    carver c = {p->scratch, 0};
    const delta_arrays a = place(s, p->tokens, &c);
    project(p, w, &a);
    const batch_conv conv = {.weights = w->conv,
                             .taps = d->conv,
                             .dilation = 1,
                             .channels = d->channels,
                             .state_offset = state_conv_offset(s, layer),
                             .x = a.projected,
                             .out = a.qkv};
    conv_batch(p, &conv);
    prepare(p, w, &a);
    const recurrence r = {&a, state_matrix_offset(s, layer)};
    run_task(p, task_recurrence, &r, p->layout.count * d->value_heads * ops_state_blocks(d->dim), 1);
    const ops_gated_norm norm = {a.z, w->norm, d->dim, s->eps, a.o};
    run_task(p, task_gated_norm, &norm, (size_t)p->tokens * d->value_heads, rows_grain(d->dim));
    multiply(p, a.o, p->tokens, &(product){&w->output, p->y, 0}, 1);
}
