/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter; see qsa_ggml.h. The host compiles it against its own ggml. */
#include "qsa_ggml.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DETAIL_BYTES = 512 };

/* Returns from the calling function when the call fails. */
#define ADAPTER_TRY(call)                                                                                              \
    do {                                                                                                               \
        const qsa_status adapter_try_status = (call);                                                                  \
        if (adapter_try_status != QSA_OK)                                                                              \
            return adapter_try_status;                                                                                 \
    } while (0)

typedef struct phase_node {
    struct layer_nodes *layer;
    uint32_t phase;
} phase_node;

typedef struct layer_nodes {
    qsa_ggml_pass *pass;
    uint32_t layer;
    bool in_graph;
    bool begun;                    /* in the current run */
    phase_node phases[QSA_PHASES]; /* user data of the nodes */
} layer_nodes;

struct qsa_ggml_pass {
    qsa_config config;
    qsa_step *step; /* of the current run */
    uint32_t tokens;
    atomic_int status; /* the first qsa_status that was not QSA_OK */
    char detail[DETAIL_BYTES];
    void (*phase_begins)(void *user, uint32_t phase); /* NULL: no observer */
    void *observer;
    layer_nodes layers[];
};

qsa_status qsa_ggml_pass_create(const qsa_cache *cache, qsa_ggml_pass **out_pass)
{
    if (cache == NULL || out_pass == NULL)
        return QSA_E_ARGUMENT;
    qsa_config config;
    ADAPTER_TRY(qsa_cache_config(cache, &config));
    qsa_ggml_pass *pass = calloc(1, sizeof *pass + config.layers * sizeof pass->layers[0]);
    if (pass == NULL)
        return QSA_E_MEMORY;
    pass->config = config;
    atomic_init(&pass->status, QSA_OK);
    for (uint32_t i = 0; i < config.layers; i++) {
        layer_nodes *layer = &pass->layers[i];
        layer->pass = pass;
        layer->layer = i;
        for (uint32_t p = 0; p < QSA_PHASES; p++)
            layer->phases[p] = (phase_node){layer, p};
    }
    *out_pass = pass;
    return QSA_OK;
}

void qsa_ggml_pass_destroy(qsa_ggml_pass *pass)
{
    free(pass);
}

void qsa_ggml_pass_reset(qsa_ggml_pass *pass)
{
    for (uint32_t i = 0; i < pass->config.layers; i++)
        pass->layers[i].in_graph = false;
}

void qsa_ggml_pass_run(qsa_ggml_pass *pass, qsa_step *step, uint32_t tokens)
{
    pass->step = step;
    pass->tokens = tokens;
    pass->detail[0] = '\0';
    atomic_store(&pass->status, QSA_OK);
}

void qsa_ggml_pass_observe(qsa_ggml_pass *pass, void (*phase_begins)(void *user, uint32_t phase), void *user)
{
    pass->phase_begins = phase_begins;
    pass->observer = user;
}

qsa_status qsa_ggml_pass_status(const qsa_ggml_pass *pass)
{
    return (qsa_status)atomic_load(&pass->status);
}

const char *qsa_ggml_pass_detail(const qsa_ggml_pass *pass)
{
    return pass->detail;
}

/* Keeps the first failure. Of several threads that fail, only the first writes the detail line; it is read after the
 * graph has run. */
static void keep_failure(qsa_ggml_pass *pass, qsa_status status, const char *detail)
{
    assert(status != QSA_OK);
    int expected = QSA_OK;
    if (atomic_compare_exchange_strong(&pass->status, &expected, status))
        snprintf(pass->detail, sizeof pass->detail, "%s", detail);
}

/* ---- building a graph ---- */

/* Needs no atomics: nothing runs while a graph is built. */
static qsa_status refuse(qsa_ggml_pass *pass, qsa_status status, const char *name, const char *why)
{
    assert(status != QSA_OK);
    snprintf(pass->detail, sizeof pass->detail, "%s: %s", name, why);
    return status;
}

/* The shape must be [dim, heads, tokens]. Raw keys have no heads: theirs is [dim, tokens, 1]. */
static qsa_status check_source(qsa_ggml_pass *pass, const char *name, const struct ggml_tensor *tensor, int64_t dim,
                               int64_t heads, int64_t tokens)
{
    assert(dim > 0 && heads >= 0 && tokens >= 0);
    if (tensor == NULL)
        return refuse(pass, QSA_E_ARGUMENT, name, "is missing");
    if (tensor->type != GGML_TYPE_F32)
        return refuse(pass, QSA_E_ARGUMENT, name, "is not f32");
    if (tensor->ne[0] != dim || tensor->ne[1] != heads || tensor->ne[2] != tokens || tensor->ne[3] != 1) {
        char why[128];
        snprintf(why, sizeof why, "has shape %lld x %lld x %lld x %lld, expected %lld x %lld x %lld",
                 (long long)tensor->ne[0], (long long)tensor->ne[1], (long long)tensor->ne[2], (long long)tensor->ne[3],
                 (long long)dim, (long long)heads, (long long)tokens);
        return refuse(pass, QSA_E_ARGUMENT, name, why);
    }
    if (tensor->nb[0] != sizeof(float) || tensor->nb[1] % sizeof(float) != 0 || tensor->nb[2] % sizeof(float) != 0)
        return refuse(pass, QSA_E_ARGUMENT, name, "needs contiguous heads, and strides that are multiples of a float");
    return QSA_OK;
}

static qsa_status check_stored(qsa_ggml_pass *pass, const qsa_ggml_sources *s)
{
    const qsa_config *c = &pass->config;
    if (s->k == NULL)
        return refuse(pass, QSA_E_ARGUMENT, "k", "is missing");
    const int64_t tokens = s->k->ne[2];
    ADAPTER_TRY(check_source(pass, "k", s->k, c->head_dim, c->kv_heads, tokens));
    ADAPTER_TRY(check_source(pass, "v", s->v, c->head_dim, c->kv_heads, tokens));
    return check_source(pass, "raw key", s->raw_key, c->index_dim, tokens, 1);
}

static qsa_status check_queries(qsa_ggml_pass *pass, const qsa_ggml_sources *s)
{
    const qsa_config *c = &pass->config;
    const int64_t tokens = s->k->ne[2];
    ADAPTER_TRY(check_source(pass, "q", s->q, c->head_dim, c->q_heads, tokens));
    return check_source(pass, "index q", s->index_q, c->index_dim, c->index_heads, tokens);
}

/* ---- running a graph ---- */

static qsa_strided strided(const struct ggml_tensor *tensor)
{
    assert(tensor->data != NULL);
    return (qsa_strided){tensor->data, tensor->nb[2] / sizeof(float), tensor->nb[1] / sizeof(float)};
}

static qsa_strided strided_one_head(const struct ggml_tensor *tensor)
{
    assert(tensor->data != NULL);
    return (qsa_strided){tensor->data, tensor->nb[1] / sizeof(float), 0};
}

static void notify(const qsa_ggml_pass *pass, uint32_t phase)
{
    assert(phase < QSA_PHASES);
    if (pass->phase_begins != NULL)
        pass->phase_begins(pass->observer, phase);
}

/* Runs on one of the graph's threads. tokens: of the graph. */
static void begin_layer(layer_nodes *layer, int64_t tokens, const qsa_tensors *tensors, const qsa_output *output)
{
    qsa_ggml_pass *pass = layer->pass;
    notify(pass, 0); /* beginning a layer counts as part of its first phase */
    layer->begun = false;
    if (qsa_ggml_pass_status(pass) != QSA_OK)
        return;
    if (pass->step == NULL || tokens != pass->tokens) {
        keep_failure(pass, QSA_E_ARGUMENT, "the graph's tokens are not those of the step");
        return;
    }
    const qsa_status status = qsa_layer_begin(pass->step, layer->layer, tensors, output);
    layer->begun = status == QSA_OK;
    if (status != QSA_OK)
        keep_failure(pass, status, qsa_error_detail());
}

/* Sources of a layer's nodes. A layer that only updates the cache has the first three. */
enum { SOURCE_K, SOURCE_V, SOURCE_RAW_KEY, STORED_SOURCES, SOURCE_Q = STORED_SOURCES, SOURCE_INDEX_Q, SOURCES };

static qsa_tensors tensors_of(const struct ggml_tensor *out)
{
    return (qsa_tensors){
        .k = strided(out->src[SOURCE_K]),
        .v = strided(out->src[SOURCE_V]),
        .raw_key = strided_one_head(out->src[SOURCE_RAW_KEY]),
    };
}

static void run_begin(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    layer_nodes *layer = user;
    if (ith != 0)
        return; /* ggml runs a node on all its threads; one of them begins the layer */
    qsa_tensors tensors = tensors_of(out);
    tensors.q = strided(out->src[SOURCE_Q]);
    tensors.index_q = strided(out->src[SOURCE_INDEX_Q]);
    const qsa_output output = {out->data, out->nb[1] / sizeof(float), layer->pass->config.head_dim};
    begin_layer(layer, out->ne[1], &tensors, &output);
}

static void run_begin_store(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    if (ith == 0) {
        const qsa_tensors tensors = tensors_of(out);
        begin_layer(user, out->ne[1], &tensors, &(qsa_output){NULL, 0, 0});
    }
}

static void run_phase(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)out;
    assert(ith >= 0 && ith < nth);
    const phase_node *node = user;
    qsa_ggml_pass *pass = node->layer->pass;
    if (ith == 0 && node->phase > 0)
        notify(pass, node->phase);
    const uint32_t parts = nth < QSA_MAX_PARTS ? (uint32_t)nth : QSA_MAX_PARTS;
    /* If another part of this phase failed, this part still runs, so that the step knows the lowest error. */
    if ((uint32_t)ith >= parts || !node->layer->begun)
        return;
    const qsa_status status = qsa_layer_phase(pass->step, node->phase, (uint32_t)ith, parts);
    if (status != QSA_OK)
        keep_failure(pass, status, qsa_error_detail());
}

static qsa_status check_layer(qsa_ggml_pass *pass, uint32_t layer)
{
    if (layer >= pass->config.layers)
        return refuse(pass, QSA_E_ARGUMENT, "layer", "is not a layer of the cache");
    return pass->layers[layer].in_graph ? refuse(pass, QSA_E_ORDER, "layer", "is already in the graph") : QSA_OK;
}

/* first: the node that begins the layer. Each phase is an in-place node on the output of the node before it, so the
 * phases run in order. */
static struct ggml_tensor *add_phases(struct ggml_context *context, layer_nodes *nodes, struct ggml_tensor *first,
                                      struct ggml_tensor **inputs, int n)
{
    assert(!nodes->in_graph && n <= SOURCES);
    struct ggml_tensor *out = first;
    for (uint32_t p = 0; p < QSA_PHASES; p++)
        out = ggml_custom_inplace(context, out, inputs, n, run_phase, GGML_N_TASKS_MAX, &nodes->phases[p]);
    nodes->in_graph = true;
    return out;
}

qsa_status qsa_ggml_layer(qsa_ggml_pass *pass, struct ggml_context *context, uint32_t layer,
                          const qsa_ggml_sources *sources, struct ggml_tensor **out_attention)
{
    if (pass == NULL || context == NULL || sources == NULL || out_attention == NULL)
        return QSA_E_ARGUMENT;
    ADAPTER_TRY(check_layer(pass, layer));
    ADAPTER_TRY(check_stored(pass, sources));
    ADAPTER_TRY(check_queries(pass, sources));
    layer_nodes *nodes = &pass->layers[layer];
    struct ggml_tensor *inputs[SOURCES] = {sources->k, sources->v, sources->raw_key, sources->q, sources->index_q};
    const int64_t width = (int64_t)pass->config.head_dim * pass->config.q_heads;
    struct ggml_tensor *first =
        ggml_custom_4d(context, GGML_TYPE_F32, width, sources->k->ne[2], 1, 1, inputs, SOURCES, run_begin, 1, nodes);
    *out_attention = add_phases(context, nodes, first, inputs, SOURCES);
    return QSA_OK;
}

qsa_status qsa_ggml_layer_store(qsa_ggml_pass *pass, struct ggml_context *context, uint32_t layer,
                                const qsa_ggml_sources *sources, struct ggml_tensor **out_done)
{
    if (pass == NULL || context == NULL || sources == NULL || out_done == NULL)
        return QSA_E_ARGUMENT;
    ADAPTER_TRY(check_layer(pass, layer));
    ADAPTER_TRY(check_stored(pass, sources));
    layer_nodes *nodes = &pass->layers[layer];
    struct ggml_tensor *inputs[STORED_SOURCES] = {sources->k, sources->v, sources->raw_key};
    struct ggml_tensor *first = ggml_custom_4d(context, GGML_TYPE_F32, 1, sources->k->ne[2], 1, 1, inputs,
                                               STORED_SOURCES, run_begin_store, 1, nodes);
    *out_done = add_phases(context, nodes, first, inputs, STORED_SOURCES);
    return QSA_OK;
}
