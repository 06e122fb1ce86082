/* SPDX-License-Identifier: Apache-2.0 */
#include "make/released_plan.h"

#include "base/error.h"
#include "make/recipe.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { TENSORS_PER_LAYER = 32, TENSORS_BESIDE = 8 };

/* ---- options ---- */

static qsa_status check_count(const char *name, uint32_t value, uint32_t least, uint32_t most)
{
    if (value < least || value > most)
        return engine_fail(QSA_E_ARGUMENT, "%s is %" PRIu32 ", expected %" PRIu32 " to %" PRIu32, name, value, least,
                           most);
    return QSA_OK;
}

static qsa_status check_options(const qsa_random_model *o)
{
    ENGINE_TRY(engine_check_size("qsa_random_model", o->size_bytes, sizeof *o));
    ENGINE_TRY(check_count("layers", o->layers, RELEASED_MIN_LAYERS, RELEASED_MAX_LAYERS));
    ENGINE_TRY(check_count("experts", o->experts, RELEASED_EXPERTS_USED, RELEASED_MAX_EXPERTS));
    ENGINE_TRY(check_count("vocabulary", o->vocabulary, RELEASED_MIN_VOCABULARY, RELEASED_MAX_VOCABULARY));
    ENGINE_TRY(check_count("shards", o->shards, 1, RELEASED_MAX_SHARDS));
    if (o->ngram_rows != 0)
        ENGINE_TRY(check_count("ngram_rows", o->ngram_rows, RELEASED_MIN_NGRAM_ROWS, RELEASED_MAX_NGRAM_ROWS));
    return check_count("type", (uint32_t)o->type, 0, QSA_RANDOM_TYPE_COUNT - 1);
}

/* ---- n-gram table ---- */

static bool is_prime(uint32_t n)
{
    assert(n > 2);
    for (uint32_t d = 3; d * d <= n; d += 2)
        if (n % d == 0)
            return false;
    return n % 2 != 0;
}

/* The first primes at or above a head's share of the rows. */
static void choose_ngram_sizes(released_plan *plan)
{
    const uint32_t wanted = plan->options.ngram_rows;
    uint32_t next = wanted ? wanted / RELEASED_NGRAM_HEADS : plan->options.vocabulary;
    for (int head = 0; head < RELEASED_NGRAM_HEADS; head++) {
        while (!is_prime(next))
            next++;
        plan->ngram_sizes[head] = next;
        plan->ngram_rows += next++;
    }
}

/* ---- tensor list ----
 *
 * Magnitudes are chosen so that every part contributes and none dominates, for any number of layers: a layer's input
 * has an RMS of about 0.5, and what it adds to the residual an RMS of some tenths. */

typedef struct tensor_list {
    released_plan *plan;
    char prefix[16]; /* "blk.3." */
    bool more_bits;  /* recipe_has_more_bits of that layer */
} tensor_list;

typedef struct tensor_shape {
    int64_t columns, rows, matrices; /* 0: no such dimension */
} tensor_shape;

static void add(tensor_list *list, const char *name, enum ggml_type type, tensor_shape shape, float centre,
                float spread)
{
    released_plan *plan = list->plan;
    assert(plan->tensor_count < (size_t)plan->options.layers * TENSORS_PER_LAYER + TENSORS_BESIDE);
    released_tensor *t = &plan->tensors[plan->tensor_count++];
    *t = (released_tensor){
        .shape = {.dims = {shape.columns, shape.rows, shape.matrices}, .type = type},
        .centre = centre,
        .spread = spread,
    };
    snprintf(t->shape.name, sizeof t->shape.name, "%s%s", list->prefix, name);
}

/* The spread for which inputs of RMS 1 give outputs of RMS `gain`. */
static float spread_of(tensor_shape shape, float gain)
{
    assert(shape.columns > 0);
    return gain * sqrtf(3.0f / (float)shape.columns);
}

static enum ggml_type type_of(const tensor_list *list, recipe_kind kind, int64_t columns)
{
    return recipe_type(list->plan->options.type, kind, list->more_bits, columns);
}

/* gain: RMS of the output for inputs of RMS 1. */
static void add_kind(tensor_list *list, recipe_kind kind, const char *name, tensor_shape shape, float gain)
{
    assert(gain > 0);
    add(list, name, type_of(list, kind, shape.columns), shape, 0, spread_of(shape, gain));
}

static void add_matrix(tensor_list *list, const char *name, tensor_shape shape, float gain)
{
    add_kind(list, RECIPE_LARGE, name, shape, gain);
}

static void add_small(tensor_list *list, const char *name, tensor_shape shape, float gain)
{
    add_kind(list, RECIPE_SMALL, name, shape, gain);
}

static void add_router(tensor_list *list, const char *name, tensor_shape shape)
{
    add(list, name, GGML_TYPE_F32, shape, 0, spread_of(shape, 2));
}

static void add_norm(tensor_list *list, const char *name, int64_t dim)
{
    add(list, name, GGML_TYPE_F32, (tensor_shape){dim, 0, 0}, 1, 0.125f);
}

enum { E = RELEASED_EMBEDDING, WIDE = RELEASED_STREAMS * RELEASED_EMBEDDING };

/* part: "hc_attn", "hc_ffn" or "output_hc"; the last has no injection. */
static void add_hyper(tensor_list *list, const char *part, bool has_inject)
{
    char name[32];
    snprintf(name, sizeof name, "%s_norm.weight", part);
    add_norm(list, name, WIDE);
    snprintf(name, sizeof name, "%s_down.weight", part);
    add_small(list, name, (tensor_shape){WIDE, RELEASED_LOW_RANK, 0}, 4);
    snprintf(name, sizeof name, "%s_up.weight", part);
    add_small(list, name, (tensor_shape){RELEASED_LOW_RANK, WIDE, 0}, 1);
    snprintf(name, sizeof name, "%s_inject.weight", part);
    if (has_inject)
        add_small(list, name, (tensor_shape){WIDE, RELEASED_STREAMS, 0}, 2);
}

static void add_delta_net(tensor_list *list)
{
    const int64_t heads = RELEASED_STATE_V_HEADS, inner = RELEASED_STATE_INNER, channels = RELEASED_STATE_CHANNELS;
    add_kind(list, RECIPE_QKV, "attn_qkv.weight", (tensor_shape){E, channels, 0}, 2);
    add_matrix(list, "attn_gate.weight", (tensor_shape){E, inner, 0}, 2);
    add(list, "ssm_conv1d.weight", GGML_TYPE_F32, (tensor_shape){RELEASED_CONVOLUTION, channels, 0}, 0, 1);
    /* The state keeps between 0.2 and 0.999 of itself from one token to the next: exp(a softplus(dt)). */
    add(list, "ssm_dt.bias", GGML_TYPE_F32, (tensor_shape){heads, 0, 0}, -4.5f, 2);
    add(list, "ssm_a", GGML_TYPE_F32, (tensor_shape){heads, 0, 0}, -8.5f, 7.5f);
    add_small(list, "ssm_beta.weight", (tensor_shape){E, heads, 0}, 2);
    add_small(list, "ssm_alpha.weight", (tensor_shape){E, heads, 0}, 1);
    add_norm(list, "ssm_norm.weight", RELEASED_STATE_DIM);
    add_matrix(list, "ssm_out.weight", (tensor_shape){inner, E, 0}, 0.5f);
}

static void add_attention(tensor_list *list)
{
    const int64_t q = RELEASED_Q_HEADS * RELEASED_HEAD_DIM, kv = RELEASED_KV_HEADS * RELEASED_HEAD_DIM;
    const int64_t index = RELEASED_INDEX_DIM;
    add_matrix(list, "attn_q.weight", (tensor_shape){E, 2 * q, 0}, 2);
    add_matrix(list, "attn_k.weight", (tensor_shape){E, kv, 0}, 2);
    add_kind(list, RECIPE_VALUES, "attn_v.weight", (tensor_shape){E, kv, 0}, 2);
    add_matrix(list, "attn_output.weight", (tensor_shape){q, E, 0}, 1);
    /* Scores spread by about 3: some tokens dominate, as in trained models. */
    add(list, "attn_q_norm.weight", GGML_TYPE_F32, (tensor_shape){RELEASED_HEAD_DIM, 0, 0}, 3, 0.5f);
    add_norm(list, "attn_k_norm.weight", RELEASED_HEAD_DIM);
    add_matrix(list, "indexer.q_proj.weight", (tensor_shape){E, RELEASED_INDEX_HEADS * index, 0}, 2);
    add_matrix(list, "indexer.k_proj.weight", (tensor_shape){E, index, 0}, 2);
    add_norm(list, "indexer.q_norm.weight", index);
    add_norm(list, "indexer.k_norm.weight", index);
}

static void add_ngram(tensor_list *list)
{
    add_matrix(list, "ple_key.weight", (tensor_shape){E, WIDE, 0}, 1);
    add_matrix(list, "ple_value.weight", (tensor_shape){E, E, 0}, 0.5f);
    add_norm(list, "ple_norm_key.weight", WIDE);
    add_norm(list, "ple_norm_query.weight", WIDE);
    add_norm(list, "ple_norm_conv.weight", WIDE);
    add(list, "ple_conv1d.weight", GGML_TYPE_F32, (tensor_shape){RELEASED_NGRAM_CONVOLUTION, WIDE, 0}, 0, 0.25f);
}

static void add_experts(tensor_list *list)
{
    const int64_t n = list->plan->options.experts, width = RELEASED_EXPERT_WIDTH, shared = RELEASED_SHARED_WIDTH;
    add_router(list, "ffn_gate_inp.weight", (tensor_shape){E, n, 0});
    add_matrix(list, "ffn_gate_exps.weight", (tensor_shape){E, width, n}, 2);
    add_matrix(list, "ffn_up_exps.weight", (tensor_shape){E, width, n}, 2);
    add_kind(list, RECIPE_VALUES, "ffn_down_exps.weight", (tensor_shape){width, E, n}, 1);
    add_router(list, "ffn_gate_inp_shexp.weight", (tensor_shape){E, 0, 0});
    add_matrix(list, "ffn_gate_shexp.weight", (tensor_shape){E, shared, 0}, 2);
    add_matrix(list, "ffn_up_shexp.weight", (tensor_shape){E, shared, 0}, 2);
    add_kind(list, RECIPE_VALUES, "ffn_down_shexp.weight", (tensor_shape){shared, E, 0}, 1);
}

static void add_layer(tensor_list *list, uint32_t layer)
{
    snprintf(list->prefix, sizeof list->prefix, "blk.%" PRIu32 ".", layer);
    list->more_bits = recipe_has_more_bits(layer, list->plan->options.layers);
    add_hyper(list, "hc_attn", true);
    if ((layer + 1) % RELEASED_INTERVAL == 0)
        add_attention(list);
    else
        add_delta_net(list);
    if (layer == RELEASED_NGRAM_LAYER)
        add_ngram(list);
    add_hyper(list, "hc_ffn", true);
    add_experts(list);
}

static void list_tensors(released_plan *plan)
{
    tensor_list list = {.plan = plan};
    const tensor_shape words = {E, plan->options.vocabulary, 0};
    const float unit = sqrtf(3); /* uniform in [-unit, unit] has RMS 1 */
    const tensor_shape ngrams = {RELEASED_NGRAM_DIM, plan->ngram_rows, 0};
    add(&list, "token_embd.weight", type_of(&list, RECIPE_WORDS, E), words, 0, unit);
    add_kind(&list, RECIPE_HEAD, "output.weight", words, 4);
    add_hyper(&list, "output_hc", false);
    add(&list, "per_layer_token_embd.weight", type_of(&list, RECIPE_NGRAM, ngrams.columns), ngrams, 0, unit);
    for (uint32_t layer = 0; layer < plan->options.layers; layer++)
        add_layer(&list, layer);
}

qsa_status released_plan_init(released_plan *plan, const qsa_random_model *options)
{
    *plan = (released_plan){0};
    ENGINE_TRY(check_options(options));
    plan->options = *options;
    choose_ngram_sizes(plan);
    plan->tensors = calloc((size_t)options->layers * TENSORS_PER_LAYER + TENSORS_BESIDE, sizeof *plan->tensors);
    if (!plan->tensors)
        return engine_fail(QSA_E_MEMORY, "no memory for the tensor list of %" PRIu32 " layers", options->layers);
    list_tensors(plan);
    return QSA_OK;
}

void released_plan_release(released_plan *plan)
{
    free(plan->tensors);
    *plan = (released_plan){0};
}
