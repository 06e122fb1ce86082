/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts.h"

#include "model/product.h"

#include <string.h>

/* The experts' outputs are summed for a range of rows of E at a time, so that they stay in the last-level cache. */
enum { GIVEN_FLOATS = 4 << 20 };

static size_t given_floats(size_t pairs, size_t e)
{
    const size_t least = larger(GIVEN_FLOATS, pairs * OPS_PIECE);
    return pairs * e < least ? pairs * e : least;
}

static size_t rows_at_once(size_t pairs, size_t e)
{
    const size_t rows = GIVEN_FLOATS / pairs / OPS_PIECE * OPS_PIECE;
    return rows >= e ? e : larger(rows, OPS_PIECE);
}

typedef struct expert_arrays {
    float *logits;                               /* [T][experts] */
    int32_t *chosen;                             /* [T][used] */
    float *weight;                               /* [T][used] */
    float *shared_gate, *shared_up, *shared_mid; /* [T][shared width] */
    float *shared, *shared_router;               /* [T][E], [T] */
    float *gate, *up, *mid;                      /* [pairs][width], in order of places */
    float *given;                                /* [pairs][rows_at_once] */
    grouping groups;
    qsa_product *products; /* [2 * experts], and a task for each */
    task *tasks;
} expert_arrays;

static expert_arrays place(const model_shape *s, size_t tokens, carver *c)
{
    const size_t pairs = tokens * s->experts_used, width = s->expert_width, shared = s->shared_width;
    expert_arrays a;
    a.logits = carve_floats(c, tokens * s->experts);
    a.chosen = carve(c, pairs, sizeof *a.chosen);
    a.weight = carve_floats(c, pairs);
    a.shared_gate = carve_floats(c, tokens * shared);
    a.shared_up = carve_floats(c, tokens * shared);
    a.shared_mid = carve_floats(c, tokens * shared);
    a.shared = carve_floats(c, tokens * s->embedding);
    a.shared_router = carve_floats(c, tokens);
    a.gate = carve_floats(c, pairs * width);
    a.up = carve_floats(c, pairs * width);
    a.mid = carve_floats(c, pairs * width);
    a.given = carve_floats(c, given_floats(pairs, s->embedding));
    a.groups.first = carve(c, s->experts + (size_t)1, sizeof *a.groups.first);
    a.groups.column = carve(c, pairs, sizeof *a.groups.column);
    a.groups.place = carve(c, pairs, sizeof *a.groups.place);
    a.products = carve(c, 2 * (size_t)s->experts, sizeof *a.products);
    a.tasks = carve(c, 2 * (size_t)s->experts, sizeof *a.tasks);
    return a;
}

size_t experts_scratch_bytes(const model_shape *shape, size_t tokens)
{
    carver c = {NULL, 0};
    (void)place(shape, tokens, &c);
    return c.used;
}

size_t experts_blocks_bytes(const model_shape *shape, const expert_weights *w, size_t tokens)
{
    const qsa_weights *of_tokens[] = {&w->router,      &w->gate.first, &w->up.first,   &w->shared_router,
                                      &w->shared_gate, &w->shared_up,  &w->shared_down};
    size_t bytes = product_blocks_bytes(&w->down.first, tokens * shape->experts_used);
    for (size_t i = 0; i < sizeof of_tokens / sizeof *of_tokens; i++)
        bytes = larger(bytes, product_blocks_bytes(of_tokens[i], tokens));
    return bytes;
}

/* ---- order ---- */

void experts_group(const int32_t *chosen, size_t pairs, size_t used, size_t experts, const grouping *out)
{
    uint32_t *first = out->first;
    memset(first, 0, (experts + 1) * sizeof *first);
    for (size_t p = 0; p < pairs; p++)
        first[chosen[p] + 1]++;
    for (size_t e = 0; e < experts; e++)
        first[e + 1] += first[e];
    for (size_t p = 0; p < pairs; p++) {
        const uint32_t place = first[chosen[p]]++;
        out->place[p] = (int32_t)place;
        out->column[place] = (uint32_t)(p / used);
    }
    /* Each first is now the next expert's. */
    memmove(first + 1, first, experts * sizeof *first);
    first[0] = 0;
}

/* ---- products of the experts ---- */

/* Rows [row, row + rows) of each expert's matrix. */
typedef struct expert_product {
    const expert_matrices *matrices;
    size_t row, rows;
    const qsa_columns *columns;
    const uint32_t *column; /* of each place; NULL: places are columns */
    float *y;               /* [pairs][rows] */
} expert_product;

static void scale_experts(const pass *p, const expert_arrays *a, const expert_product *list, size_t n)
{
    const uint32_t *first = a->groups.first;
    for (size_t e = 0; e < p->shape->experts; e++)
        for (size_t i = 0; i < n && first[e] < first[e + 1]; i++)
            apply_scale(p, list[i].matrices->first.data, e, list[i].y + first[e] * list[i].rows,
                        first[e + 1] - first[e], list[i].rows, list[i].rows);
}

/* The products of list [n] for every expert that a token selected; those of one expert are adjacent. */
static void multiply_experts(pass *p, const expert_arrays *a, const expert_product *list, size_t n)
{
    size_t count = 0;
    for (size_t e = 0; e < p->shape->experts; e++) {
        const uint32_t *first = a->groups.first + e;
        for (size_t i = 0; i < n && first[0] < first[1]; i++) {
            const expert_product *l = &list[i];
            qsa_weights weights = l->matrices->first;
            weights.data = (const char *)weights.data + e * l->matrices->bytes + l->row * weights.row_bytes;
            weights.rows = l->rows;
            a->products[count] = (qsa_product){.weights = weights,
                                               .columns = l->columns,
                                               .experts = 1,
                                               .first = first,
                                               .column = l->column,
                                               .y = l->y,
                                               .y_stride = l->rows};
            a->tasks[count] = (task){task_multiply, &a->products[count], qsa_product_tiles(&a->products[count]), 1};
            count++;
        }
    }
    worker_pool_run(p->workers, p, a->tasks, count);
    if (p->weights->scale_count > 0)
        scale_experts(p, a, list, n);
}

/* ---- silu(gate) * up, as columns of the next product ---- */

typedef struct middle {
    ops_swiglu swiglu;
    qsa_columns columns; /* of its output */
} middle;

/* Unit: a row, quantised while it is in the cache. */
static void task_middle(const void *context, const void *operation, size_t begin, size_t end)
{
    const pass *p = context;
    const middle *m = operation;
    p->ops->swiglu(&m->swiglu, (ops_range){begin, end});
    if (m->columns.blocks != NULL)
        p->products->quantise(&m->columns, begin, end);
}

static qsa_columns middle_of(pass *p, const expert_weights *w, const expert_arrays *a, size_t pairs)
{
    const size_t width = p->shape->expert_width;
    const middle m = {{a->gate, a->up, width, width, width, a->mid},
                      {width, pairs, a->mid, width, quantises(&w->down.first) ? p->blocks : NULL}};
    run_task(p, task_middle, &m, pairs, rows_grain(width));
    return m.columns;
}

/* ---- the sum ---- */

typedef struct sum {
    const expert_arrays *arrays;
    size_t row, rows;
} sum;

/* Unit: a token. */
static void task_sum(const void *context, const void *operation, size_t begin, size_t end)
{
    const pass *p = context;
    const sum *s = operation;
    const expert_arrays *a = s->arrays;
    const size_t e = p->shape->embedding, used = p->shape->experts_used;
    for (size_t t = begin; t < end; t++) {
        const ops_combine op = {.expert = a->given,
                                .place = a->groups.place + t * used,
                                .weight = a->weight + t * used,
                                .shared = a->shared + t * e + s->row,
                                .gate = a->shared_router + t,
                                .used = used,
                                .dim = s->rows,
                                .out = p->y + t * e + s->row};
        p->ops->combine(&op, (ops_range){0, ops_pieces(s->rows)});
    }
}

/* ---- the layer ---- */

static void route(pass *p, const expert_weights *w, const expert_arrays *a, size_t tokens)
{
    const model_shape *s = p->shape;
    const size_t shared = s->shared_width;
    const product products[] = {{&w->shared_gate, a->shared_gate, 0},
                                {&w->shared_up, a->shared_up, 0},
                                {&w->router, a->logits, 0},
                                {&w->shared_router, a->shared_router, 0}};
    multiply(p, p->x, tokens, products, sizeof products / sizeof *products);
    const ops_route op = {a->logits, s->experts, s->experts_used, a->chosen, a->weight};
    const ops_swiglu swiglu = {a->shared_gate, a->shared_up, shared, shared, shared, a->shared_mid};
    const task tasks[] = {{task_route, &op, tokens, rows_grain(s->experts)},
                          {task_swiglu, &swiglu, tokens, rows_grain(shared)}};
    worker_pool_run(p->workers, p, tasks, 2);
    experts_group(a->chosen, tokens * s->experts_used, s->experts_used, s->experts, &a->groups);
}

static void ask_experts(pass *p, const expert_weights *w, const expert_arrays *a, size_t tokens)
{
    const size_t pairs = tokens * p->shape->experts_used, width = p->shape->expert_width, e = p->shape->embedding;
    const qsa_columns x = columns_of(p, p->x, e, tokens, quantises(&w->gate.first) || quantises(&w->up.first));
    const expert_product first[] = {{&w->gate, 0, width, &x, a->groups.column, a->gate},
                                    {&w->up, 0, width, &x, a->groups.column, a->up}};
    multiply_experts(p, a, first, 2);
    const qsa_columns mid = middle_of(p, w, a, pairs);
    const size_t at_once = rows_at_once(pairs, e);
    for (size_t row = 0; row < e; row += at_once) {
        const size_t rows = e - row < at_once ? e - row : at_once;
        multiply_experts(p, a, &(expert_product){&w->down, row, rows, &mid, NULL, a->given}, 1);
        run_task(p, task_sum, &(sum){a, row, rows}, tokens, rows_grain(rows * p->shape->experts_used));
    }
}

void experts_layer(pass *p, uint32_t layer, size_t tokens)
{
    const expert_weights *w = &p->weights->layers[layer].experts;
    carver c = {p->scratch, 0};
    const expert_arrays a = place(p->shape, tokens, &c);
    route(p, w, &a, tokens);
    multiply(p, a.shared_mid, tokens, &(product){&w->shared_down, a.shared, 0}, 1);
    ask_experts(p, w, &a, tokens);
}
