/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hyper.h"

#include "model/product.h"

/* Tokens per round: their norms and mixtures stay in the last-level cache, and memory does not grow with the chunk. */
enum { TILE = 256 };

typedef struct hyper_arrays {
    float *n, *u; /* [tokens][streams][E] */
    float *low;   /* [tokens][rank] */
} hyper_arrays;

static hyper_arrays place(const model_shape *s, size_t tokens, carver *c)
{
    const size_t n = tokens < TILE ? tokens : TILE, wide = (size_t)s->streams * s->embedding;
    hyper_arrays a;
    a.n = carve_floats(c, n * wide);
    a.u = carve_floats(c, n * wide);
    a.low = carve_floats(c, n * s->low_rank);
    return a;
}

size_t hyper_scratch_bytes(const model_shape *shape, size_t tokens)
{
    carver c = {NULL, 0};
    (void)place(shape, tokens, &c);
    return c.used;
}

size_t hyper_blocks_bytes(const hyper_weights *weights, size_t tokens)
{
    const size_t n = tokens < TILE ? tokens : TILE;
    const size_t wide = larger(product_blocks_bytes(&weights->down, n), product_blocks_bytes(&weights->inject, n));
    return larger(wide, product_blocks_bytes(&weights->up, n));
}

static void read_tile(pass *p, const hyper_weights *w, const hyper_arrays *a, size_t first, size_t tokens)
{
    const model_shape *s = p->shape;
    const size_t e = s->embedding, streams = s->streams, rank = s->low_rank;
    const ops_norm norm = {p->residual + first * streams * e, w->norm, e, streams, s->eps, a->n};
    run_task(p, task_norm, &norm, tokens * streams, rows_grain(e));
    const product seen[] = {{&w->down, a->low, 0}, {&w->inject, p->gains + first * streams, 0}};
    multiply(p, a->n, tokens, seen, w->inject.data == NULL ? 1 : 2);
    const ops_squash squash = {a->low, streams};
    run_task(p, task_squash, &squash, tokens * rank, rows_grain(1));
    multiply(p, a->low, tokens, &(product){&w->up, a->u, 0}, 1);
    const ops_mix mix = {a->u, a->n, e, streams, p->x + first * e};
    run_task(p, task_mix, &mix, tokens * ops_pieces(e), rows_grain(OPS_PIECE * streams));
}

void hyper_read(pass *p, const hyper_weights *weights, size_t tokens)
{
    carver c = {p->scratch, 0};
    const hyper_arrays a = place(p->shape, tokens, &c);
    for (size_t first = 0; first < tokens; first += TILE)
        read_tile(p, weights, &a, first, tokens - first < TILE ? tokens - first : TILE);
}

void hyper_write(pass *p, size_t tokens)
{
    const size_t streams = p->shape->streams, e = p->shape->embedding;
    const ops_residual add = {p->y, p->gains, streams, e, streams, p->residual};
    run_task(p, task_residual, &add, tokens * streams, rows_grain(e));
}
