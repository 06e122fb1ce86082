/* SPDX-License-Identifier: Apache-2.0 */
#include "model/builder.h"

#include <assert.h>
#include <string.h>

void *keep_params(graph_builder *b, const void *params, size_t bytes)
{
    assert(b->params_used + bytes <= b->params_bytes);
    void *kept = b->params + b->params_used;
    memcpy(kept, params, bytes);
    b->params_used += (bytes + 15) / 16 * 16;
    return kept;
}

struct ggml_tensor *custom_node(graph_builder *b, int64_t n0, int64_t n1, int64_t n2, struct ggml_tensor **sources,
                                int source_count, ggml_custom_op_t run, void *params)
{
    return ggml_custom_4d(b->context, GGML_TYPE_F32, n0, n1, n2, 1, sources, source_count, run, GGML_N_TASKS_MAX,
                          params);
}

/* ---- products ---- */

/* Columns of x again and again, until there are enough. */
static void run_repeat(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    (void)user;
    const struct ggml_tensor *x = out->src[0];
    for (int64_t column = 0; ith == 0 && column < out->ne[1]; column++) {
        memcpy((char *)out->data + (size_t)column * out->nb[1],
               (const char *)x->data + (size_t)(column % x->ne[1]) * x->nb[1], (size_t)x->ne[0] * sizeof(float));
    }
}

/* Several matrices in turn multiply the same x. */
static struct ggml_tensor *repeated(graph_builder *b, struct ggml_tensor *x)
{
    if (b->repeated_from != x) {
        b->repeated_from = x;
        b->repeated =
            ggml_custom_4d(b->context, GGML_TYPE_F32, x->ne[0], LEAST_COLUMNS, 1, 1, &x, 1, run_repeat, 1, NULL);
    }
    return b->repeated;
}

struct ggml_tensor *matrix_product(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *x)
{
    if (x->ne[1] >= b->weights->least_columns[weights->type])
        return ggml_mul_mat(b->context, weights, x);
    struct ggml_tensor *product = ggml_mul_mat(b->context, weights, repeated(b, x));
    return ggml_view_2d(b->context, product, product->ne[0], x->ne[1], product->nb[1], 0);
}

/* ---- parts ---- */

typedef struct entrance {
    part_clock *clock;
    qsa_model_part part;
} entrance;

static void run_entrance(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)out;
    (void)nth;
    const entrance *at = user;
    if (ith == 0)
        part_clock_enter(at->clock, at->part);
}

void next_part(graph_builder *b, struct ggml_tensor *done, qsa_model_part next)
{
    ggml_build_forward_expand(b->graph, done);
    if (b->clock != NULL) {
        /* A node of its own, which costs a barrier: so a graph without a clock has none of it. */
        const entrance at = {b->clock, next};
        ggml_build_forward_expand(b->graph, ggml_custom_4d(b->context, GGML_TYPE_F32, 1, 1, 1, 1, NULL, 0, run_entrance,
                                                           1, keep_params(b, &at, sizeof at)));
    }
}
