/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts.h"

#include "model/elementwise.h"
#include "model/grouped.h"

#include <stdbool.h>

/* ---- router ---- */

void experts_choose(const float *probabilities, size_t count, int32_t *out_chosen, size_t n)
{
    size_t kept = 0;
    for (size_t e = 0; e < count; e++) {
        const float p = probabilities[e];
        if (kept == n && !(p > probabilities[out_chosen[n - 1]]))
            continue; /* an equal one that comes later loses */
        size_t at = kept < n ? kept++ : n - 1;
        for (; at > 0 && p > probabilities[out_chosen[at - 1]]; at--)
            out_chosen[at] = out_chosen[at - 1];
        out_chosen[at] = (int32_t)e;
    }
}

static void run_choose(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *p = out->src[0];
    const size_t experts = (size_t)p->ne[0], used = (size_t)out->ne[0];
    const share tokens = share_of((size_t)out->ne[1], ith, nth);
    for (size_t t = tokens.begin; t < tokens.end; t++)
        experts_choose((const float *)p->data + t * experts, experts, (int32_t *)out->data + t * used, used);
}

static struct ggml_tensor *choose(graph_builder *b, struct ggml_tensor *probabilities)
{
    return ggml_custom_4d(b->context, GGML_TYPE_I32, b->shape->experts_used, probabilities->ne[1], 1, 1, &probabilities,
                          1, run_choose, GGML_N_TASKS_MAX, NULL);
}

/* ---- what the experts said, together ---- */

/* y = sum over the chosen experts, best first, of their share times what they said, which is at places. */
static void combine_token(const float *said, const int32_t *places, const float *p, const int32_t *chosen, size_t used,
                          size_t dim, float *y)
{
    float total = 0.0f;
    for (size_t r = 0; r < used; r++)
        total += p[chosen[r]];
    for (size_t r = 0; r < used; r++) {
        const float weight = p[chosen[r]] / total;
        const float *from = said + (size_t)places[r] * dim;
        for (size_t i = 0; i < dim; i++)
            y[i] = r == 0 ? weight * from[i] : y[i] + weight * from[i];
    }
}

enum { SOURCE_SAID, SOURCE_GROUPS, SOURCE_P, SOURCE_CHOSEN, SOURCE_SHARED, SOURCE_SHARED_GATE, SOURCES };

static void run_combine(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *p = out->src[SOURCE_P], *chosen = out->src[SOURCE_CHOSEN];
    const float *shared = out->src[SOURCE_SHARED]->data, *gate = out->src[SOURCE_SHARED_GATE]->data;
    const int32_t *place = grouping_of(out->src[SOURCE_GROUPS]).place;
    const size_t dim = (size_t)out->ne[0], used = (size_t)chosen->ne[0];
    const share tokens = share_of((size_t)out->ne[1], ith, nth);
    for (size_t t = tokens.begin; t < tokens.end; t++) {
        float *y = (float *)out->data + t * dim;
        combine_token(out->src[SOURCE_SAID]->data, place + t * used, (const float *)p->data + t * (size_t)p->ne[0],
                      (const int32_t *)chosen->data + t * used, used, dim, y);
        const float weight = sigmoid_f32(gate[t]);
        for (size_t i = 0; i < dim; i++)
            y[i] += weight * shared[t * dim + i];
    }
}

/* ---- the layer ---- */

enum { PRODUCT_GATE, PRODUCT_UP, PRODUCT_DOWN };

/* What each expert says of the tokens that chose it, in order of places: [E, pairs]. */
static struct ggml_tensor *said_by_experts(graph_builder *b, const expert_weights *w, struct ggml_tensor *x,
                                           struct ggml_tensor *groups)
{
    struct ggml_tensor *first = w->gate_up != NULL ? w->gate_up : w->gate, *up = NULL;
    struct ggml_tensor *columns = group_columns(b, first, x, groups);
    struct ggml_tensor *gate = grouped_product(b, first, columns, groups, PRODUCT_GATE);
    if (w->gate_up == NULL) {
        if (column_type(w->up->type) != columns->type)
            columns = group_columns(b, w->up, x, groups);
        up = grouped_product(b, w->up, columns, groups, PRODUCT_UP);
    }
    columns = swiglu_columns(b, w->down, gate, up);
    return grouped_product(b, w->down, columns, groups, PRODUCT_DOWN);
}

static struct ggml_tensor *shared_expert(graph_builder *b, const expert_weights *w, struct ggml_tensor *x)
{
    struct ggml_tensor *gate = matrix_product(b, w->shared_gate, x);
    struct ggml_tensor *up = matrix_product(b, w->shared_up, x);
    return matrix_product(b, w->shared_down, ggml_swiglu_split(b->context, gate, up));
}

struct ggml_tensor *experts_layer(graph_builder *b, uint32_t layer, struct ggml_tensor *x)
{
    const expert_weights *w = &b->weights->layers[layer].experts;
    struct ggml_tensor *p = ggml_soft_max(b->context, matrix_product(b, w->router, x));
    struct ggml_tensor *chosen = choose(b, p);
    struct ggml_tensor *groups = group_pairs(b, chosen, b->shape->experts);
    struct ggml_tensor *sources[SOURCES] = {
        [SOURCE_SAID] = said_by_experts(b, w, x, groups),
        [SOURCE_GROUPS] = groups,
        [SOURCE_P] = p,
        [SOURCE_CHOSEN] = chosen,
        [SOURCE_SHARED] = shared_expert(b, w, x),
        [SOURCE_SHARED_GATE] = matrix_product(b, w->shared_router, x),
    };
    return custom_node(b, x->ne[0], x->ne[1], 1, sources, SOURCES, run_combine, NULL);
}
