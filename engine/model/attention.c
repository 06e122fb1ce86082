/* SPDX-License-Identifier: Apache-2.0 */
#include "model/attention.h"

#include "base/error.h"
#include "model/elementwise.h"

/* ---- projections ---- */

typedef struct projections {
    qsa_ggml_sources sources;
    struct ggml_tensor *gate; /* [D, heads, tokens], strided */
} projections;

/* [dim, heads, tokens] out of a product [rows, tokens], from row `first`, heads `apart` rows apart. */
static struct ggml_tensor *heads_of(graph_builder *b, struct ggml_tensor *product, int64_t dim, int64_t heads,
                                    int64_t first, int64_t apart)
{
    const size_t size = sizeof(float);
    return ggml_view_3d(b->context, product, dim, heads, product->ne[1], (size_t)apart * size, product->nb[1],
                        (size_t)first * size);
}

/* Rows [first, first + rows) of a matrix. */
static struct ggml_tensor *rows_of(graph_builder *b, struct ggml_tensor *matrix, int64_t first, int64_t rows)
{
    return ggml_view_2d(b->context, matrix, matrix->ne[0], rows, matrix->nb[1], (size_t)first * matrix->nb[1]);
}

static projections project(graph_builder *b, const attention_weights *w, struct ggml_tensor *x)
{
    const qsa_config *c = &b->shape->qsa;
    const int64_t d = c->head_dim, kv = c->kv_heads, q_rows = (int64_t)c->q_heads * 2 * d;
    struct ggml_tensor *q, *k, *v;
    int64_t k_first = 0, v_first = 0;
    if (w->qkv != NULL) {
        q = k = v = matrix_product(b, w->qkv, x);
        k_first = q_rows;
        v_first = q_rows + kv * d;
    } else {
        q = matrix_product(b, w->q, x);
        k = matrix_product(b, w->k, x);
        v = matrix_product(b, w->v, x);
    }
    struct ggml_tensor *index_q = matrix_product(b, w->index_q, x);
    return (projections){
        .sources = {.q = heads_of(b, q, d, c->q_heads, 0, 2 * d),
                    .k = heads_of(b, k, d, kv, k_first, d),
                    .v = heads_of(b, v, d, kv, v_first, d),
                    .index_q = heads_of(b, index_q, c->index_dim, c->index_heads, 0, c->index_dim),
                    .raw_key = matrix_product(b, w->index_k, x)},
        .gate = heads_of(b, q, d, c->q_heads, d, 2 * d),
    };
}

/* Without the queries. */
static qsa_ggml_sources project_stored(graph_builder *b, const attention_weights *w, struct ggml_tensor *x)
{
    const qsa_config *c = &b->shape->qsa;
    const int64_t d = c->head_dim, kv = c->kv_heads, q_rows = (int64_t)c->q_heads * 2 * d;
    struct ggml_tensor *k = w->k, *v = w->v;
    if (w->qkv != NULL) {
        k = rows_of(b, w->qkv, q_rows, kv * d);
        v = rows_of(b, w->qkv, q_rows + kv * d, kv * d);
    }
    return (qsa_ggml_sources){.k = heads_of(b, matrix_product(b, k, x), d, kv, 0, d),
                              .v = heads_of(b, matrix_product(b, v, x), d, kv, 0, d),
                              .raw_key = matrix_product(b, w->index_k, x)};
}

/* ---- the tap ---- */

typedef struct tap_params {
    tap_point point;
    uint32_t layer;
} tap_params;

static qsa_strided strided(const struct ggml_tensor *t)
{
    return (qsa_strided){t->data, t->nb[2] / sizeof(float), t->nb[1] / sizeof(float)};
}

/* Runs after the layer's last phase and before the next layer begins. */
static void run_tap(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    const tap_params *p = user;
    if (ith != 0)
        return;
    const struct ggml_tensor *raw = out->src[5];
    const qsa_tensors tensors = {
        .q = strided(out->src[1]),
        .k = strided(out->src[2]),
        .v = strided(out->src[3]),
        .index_q = strided(out->src[4]),
        .raw_key = {raw->data, raw->nb[1] / sizeof(float), 0},
    };
    const qsa_output output = {out->data, out->nb[1] / sizeof(float), (size_t)out->src[1]->ne[0]};
    p->point.tap->layer(p->point.tap->user, p->layer, (uint32_t)out->ne[1], &tensors, &output, *p->point.step);
}

static struct ggml_tensor *tapped(graph_builder *b, const tap_point *point, uint32_t layer, const qsa_ggml_sources *s,
                                  struct ggml_tensor *attention)
{
    if (point->tap == NULL)
        return attention;
    const tap_params params = {*point, layer};
    struct ggml_tensor *sources[] = {s->q, s->k, s->v, s->index_q, s->raw_key};
    return ggml_custom_inplace(b->context, attention, sources, 5, run_tap, 1, keep_params(b, &params, sizeof params));
}

/* ---- output ---- */

/* attention * sigmoid(gate), in place. A row is one head of one token. */
static void run_gate(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *gate = out->src[1];
    const size_t dim = (size_t)gate->ne[0], heads = (size_t)gate->ne[1];
    const share rows = share_of(heads * (size_t)out->ne[1], ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        const char *at = (const char *)gate->data + row / heads * gate->nb[2] + row % heads * gate->nb[1];
        const float *g = (const float *)(const void *)at;
        float *x = (float *)out->data + row * dim;
        for (size_t i = 0; i < dim; i++)
            x[i] *= sigmoid_f32(g[i]);
    }
}

/* ---- the layer ---- */

/* Its number among the QSA layers. */
static uint32_t qsa_layer_of(const model_shape *shape, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < layer; i++)
        n += shape->kinds[i] == LAYER_QSA;
    return n;
}

static void expand_sources(graph_builder *b, const qsa_ggml_sources *s)
{
    struct ggml_tensor *const all[] = {s->q, s->k, s->v, s->index_q, s->raw_key};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] != NULL)
            ggml_build_forward_expand(b->graph, all[i]);
}

qsa_status attention_layer(graph_builder *b, qsa_ggml_pass *pass, const tap_point *tap, uint32_t layer,
                           struct ggml_tensor *x, struct ggml_tensor **out_y)
{
    const attention_weights *w = &b->weights->layers[layer].attention;
    projections p = project(b, w, x);
    expand_sources(b, &p.sources);
    struct ggml_tensor *attention = NULL;
    const qsa_status status = qsa_ggml_layer(pass, b->context, qsa_layer_of(b->shape, layer), &p.sources, &attention);
    if (status != QSA_OK)
        return engine_fail(status, "layer %u: %s", layer, qsa_ggml_pass_detail(pass));
    attention = tapped(b, tap, layer, &p.sources, attention);
    next_part(b, attention, QSA_PART_QSA_OUTPUT);
    attention = ggml_custom_inplace(b->context, attention, &p.gate, 1, run_gate, GGML_N_TASKS_MAX, NULL);
    *out_y = matrix_product(b, w->output, attention);
    return QSA_OK;
}

qsa_status attention_store(graph_builder *b, qsa_ggml_pass *pass, uint32_t layer, struct ggml_tensor *x)
{
    const qsa_ggml_sources sources = project_stored(b, &b->weights->layers[layer].attention, x);
    expand_sources(b, &sources);
    struct ggml_tensor *done = NULL;
    const qsa_status status = qsa_ggml_layer_store(pass, b->context, qsa_layer_of(b->shape, layer), &sources, &done);
    if (status != QSA_OK)
        return engine_fail(status, "layer %u: %s", layer, qsa_ggml_pass_detail(pass));
    next_part(b, done, QSA_PART_OTHER);
    return QSA_OK;
}
