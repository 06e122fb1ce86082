/* SPDX-License-Identifier: Apache-2.0 */
#include "model/shape.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 128, DEFAULT_INTERVAL = 4, DEFAULT_RATIO = 4, SECTIONS = 4 };

typedef struct key_name {
    char text[KEY_BYTES];
} key_name;

static key_name key(const char *name)
{
    key_name full;
    snprintf(full.text, sizeof full.text, "qwen4exp.%s", name);
    return full;
}

static bool has(const gguf_file *file, const char *name)
{
    return gguf_file_has(file, key(name).text);
}

static qsa_status refuse_key(const char *name, const char *why)
{
    return engine_fail(QSA_E_FORMAT, "qwen4exp.%s %s", name, why);
}

/* A required number in 1 .. most. */
static qsa_status read_count(const gguf_file *file, const char *name, uint32_t most, uint32_t *out_value)
{
    uint32_t value = 0;
    ENGINE_TRY(gguf_file_u32(file, key(name).text, &value));
    if (value == 0)
        return refuse_key(name, "is 0");
    if (value > most)
        return engine_fail(QSA_E_LIMIT, "qwen4exp.%s is %u, at most %u is supported", name, value, most);
    *out_value = value;
    return QSA_OK;
}

/* Per-layer numbers: one for all, or a list with an entry per layer, with or without entries for the draft blocks
 * behind them. out_values [MODEL_MAX_LAYERS]. */
static qsa_status read_layer_numbers(const gguf_file *file, const char *name, const model_shape *s, double *out_values)
{
    size_t n = 0;
    ENGINE_TRY(gguf_file_numbers(file, key(name).text, out_values, MODEL_MAX_LAYERS, &n));
    if (!gguf_file_is_array(file, key(name).text)) {
        for (uint32_t i = 1; i < s->layers; i++)
            out_values[i] = out_values[0];
    } else if (n != s->layers && n != s->layers + s->draft_layers) {
        return engine_fail(QSA_E_FORMAT, "qwen4exp.%s has %zu elements, expected %u: one per layer", name, n,
                           s->layers);
    }
    return QSA_OK;
}

typedef enum count_layers {
    COUNT_ONCE,       /* a number */
    COUNT_EVERY,      /* or a list whose entries agree */
    COUNT_QSA_LAYERS, /* or a list whose entries of QSA layers agree; those of other layers are 0 or the same */
} count_layers;

typedef struct count_key {
    const char *name;
    uint32_t most;
    uint32_t *out_value;
    count_layers layers;
} count_key;

static qsa_status read_layer_count(const gguf_file *file, const model_shape *s, const count_key *k)
{
    double values[MODEL_MAX_LAYERS], common = 0;
    ENGINE_TRY(read_layer_numbers(file, k->name, s, values));
    for (uint32_t i = 0; i < s->layers; i++) {
        const bool may_be_none = k->layers == COUNT_QSA_LAYERS && s->kinds[i] != LAYER_QSA;
        if (may_be_none && values[i] == 0)
            continue;
        common = common == 0 ? values[i] : common;
        if (values[i] != common || common == 0)
            return engine_fail(QSA_E_FORMAT, "qwen4exp.%s is %g on layer %u; supported is one value for all", k->name,
                               values[i], i);
    }
    if (!(common >= 1 && common <= k->most) || common != (double)(uint32_t)common)
        return engine_fail(QSA_E_LIMIT, "qwen4exp.%s is %g, supported are 1 to %u", k->name, common, k->most);
    *k->out_value = (uint32_t)common;
    return QSA_OK;
}

static qsa_status read_counts(const gguf_file *file, const model_shape *s, const count_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool is_list = keys[i].layers != COUNT_ONCE && gguf_file_is_array(file, key(keys[i].name).text);
        ENGINE_TRY(is_list ? read_layer_count(file, s, &keys[i])
                           : read_count(file, keys[i].name, keys[i].most, keys[i].out_value));
    }
    return QSA_OK;
}

/* block_count counts the draft blocks, too. */
static qsa_status read_layers(const gguf_file *file, model_shape *s)
{
    uint32_t blocks = 0;
    ENGINE_TRY(read_count(file, "block_count", MODEL_MAX_LAYERS, &blocks));
    if (has(file, "nextn_predict_layers"))
        ENGINE_TRY(gguf_file_u32(file, key("nextn_predict_layers").text, &s->draft_layers));
    if (s->draft_layers >= blocks) {
        return engine_fail(QSA_E_FORMAT,
                           "qwen4exp.nextn_predict_layers is %u, but block_count, which counts them, is %u",
                           s->draft_layers, blocks);
    }
    s->layers = blocks - s->draft_layers;
    return QSA_OK;
}

static qsa_status read_sizes(const gguf_file *file, model_shape *s)
{
    const count_key keys[] = {
        {"context_length", (uint32_t)QSA_MAX_POSITION, &s->context, COUNT_ONCE},
        {"embedding_length", MODEL_MAX_WIDTH, &s->embedding, COUNT_ONCE},
        {"hyper_connection.count", MODEL_MAX_STREAMS, &s->streams, COUNT_ONCE},
        {"hyper_connection.low_rank", MODEL_MAX_WIDTH, &s->low_rank, COUNT_ONCE},
        {"expert_count", MODEL_MAX_EXPERTS, &s->experts, COUNT_EVERY},
        {"expert_used_count", MODEL_MAX_EXPERTS_USED, &s->experts_used, COUNT_EVERY},
        {"expert_feed_forward_length", MODEL_MAX_WIDTH, &s->expert_width, COUNT_EVERY},
        {"expert_shared_feed_forward_length", MODEL_MAX_WIDTH, &s->shared_width, COUNT_EVERY},
    };
    ENGINE_TRY(read_layers(file, s));
    ENGINE_TRY(read_counts(file, s, keys, sizeof keys / sizeof keys[0]));
    ENGINE_TRY(gguf_file_f32(file, key("attention.layer_norm_rms_epsilon").text, &s->eps));
    if (s->streams < 2)
        return refuse_key("hyper_connection.count", "is 1, expected more");
    if (s->experts_used > s->experts) {
        return engine_fail(QSA_E_FORMAT, "qwen4exp.expert_used_count is %u, but there are %u experts", s->experts_used,
                           s->experts);
    }
    if (!(s->eps > 0))
        return refuse_key("attention.layer_norm_rms_epsilon", "is not above 0");
    return QSA_OK;
}

/* ---- kinds of layers ---- */

static qsa_status read_interval(const gguf_file *file, uint32_t *out_interval)
{
    *out_interval = DEFAULT_INTERVAL;
    if (!has(file, "full_attention_interval"))
        return QSA_OK;
    return read_count(file, "full_attention_interval", MODEL_MAX_LAYERS, out_interval);
}

static qsa_status read_kinds(const gguf_file *file, model_shape *s)
{
    uint32_t interval = 0;
    ENGINE_TRY(read_interval(file, &interval));
    const bool listed = has(file, "attention.recurrent_layers");
    double recurrent[MODEL_MAX_LAYERS];
    if (listed)
        ENGINE_TRY(read_layer_numbers(file, "attention.recurrent_layers", s, recurrent));
    for (uint32_t i = 0; i < s->layers; i++) {
        const bool by_interval = (i + 1) % interval != 0;
        const bool is_recurrent = listed ? recurrent[i] != 0 : by_interval;
        if (listed && has(file, "full_attention_interval") && is_recurrent != by_interval) {
            return engine_fail(QSA_E_FORMAT,
                               "qwen4exp.attention.recurrent_layers says %s of layer %u, but "
                               "full_attention_interval is %u",
                               is_recurrent ? "true" : "false", i, interval);
        }
        s->kinds[i] = is_recurrent ? LAYER_DELTA_NET : LAYER_QSA;
        s->qsa_layers += s->kinds[i] == LAYER_QSA;
    }
    if (s->qsa_layers == 0)
        return engine_fail(QSA_E_FORMAT, "none of the %u layers is a QSA layer", s->layers);
    return QSA_OK;
}

/* One ratio for all QSA layers. If the key is missing or all zero, as today's converters write it, the released ratio
 * applies. */
static qsa_status read_ratio(const gguf_file *file, model_shape *s)
{
    double ratios[MODEL_MAX_LAYERS] = {0}, found = 0;
    const bool is_list = gguf_file_is_array(file, key("attention.compress_ratios").text);
    if (has(file, "attention.compress_ratios"))
        ENGINE_TRY(read_layer_numbers(file, "attention.compress_ratios", s, ratios));
    for (uint32_t i = 0; i < s->layers && !is_list; i++)
        ratios[i] = s->kinds[i] == LAYER_QSA ? ratios[i] : 0; /* one number is that of the QSA layers */
    for (uint32_t i = 0; i < s->layers; i++)
        found = ratios[i] != 0 ? ratios[i] : found;
    s->ratios_missing = found == 0;
    if (!(found >= 0 && found <= QSA_MAX_BUDGET) || found != (double)(uint32_t)found)
        return engine_fail(QSA_E_FORMAT, "qwen4exp.attention.compress_ratios has %g, which is no ratio", found);
    s->qsa.ratio = s->ratios_missing ? DEFAULT_RATIO : (uint32_t)found;
    for (uint32_t i = 0; i < s->layers && !s->ratios_missing; i++) {
        const double expected = s->kinds[i] == LAYER_QSA ? found : 0;
        if (ratios[i] != expected) {
            return engine_fail(QSA_E_FORMAT, "qwen4exp.attention.compress_ratios is %g on layer %u, expected %g (a %s)",
                               ratios[i], i, expected, s->kinds[i] == LAYER_QSA ? "QSA layer" : "delta net");
        }
    }
    return QSA_OK;
}

/* ---- QSA ---- */

static qsa_status optional_f32(const gguf_file *file, const char *name, float *out_value)
{
    return has(file, name) ? gguf_file_f32(file, key(name).text, out_value) : QSA_OK;
}

/* The factor of any scaling; 0 counts as 1, like no key. */
static qsa_status read_factor(const gguf_file *file, float *out_factor)
{
    *out_factor = 0;
    ENGINE_TRY(optional_f32(file, "rope.scale_linear", out_factor)); /* its old name */
    ENGINE_TRY(optional_f32(file, "rope.scaling.factor", out_factor));
    *out_factor = *out_factor == 0 ? 1 : *out_factor;
    return QSA_OK;
}

/* Factors that others apply beyond those of qsa_yarn: only their defaults are supported. */
static qsa_status check_factors(const gguf_file *file)
{
    float extrapolation = 1, attention = 1;
    ENGINE_TRY(optional_f32(file, "rope.scaling.yarn_ext_factor", &extrapolation));
    ENGINE_TRY(optional_f32(file, "rope.scaling.attn_factor", &attention));
    if (extrapolation != 1 && extrapolation != -1) /* -1: the default */
        return engine_fail(QSA_E_UNSUPPORTED, "qwen4exp.rope.scaling.yarn_ext_factor is %g, supported is 1",
                           (double)extrapolation);
    if (attention != 1)
        return engine_fail(QSA_E_UNSUPPORTED, "qwen4exp.rope.scaling.attn_factor is %g, supported is 1",
                           (double)attention);
    return QSA_OK;
}

static qsa_status read_yarn_factors(const gguf_file *file, const model_shape *s, float factor, qsa_yarn *yarn)
{
    uint32_t original_context = s->context;
    if (has(file, "rope.scaling.original_context_length"))
        ENGINE_TRY(read_count(file, "rope.scaling.original_context_length", 1 << 24, &original_context));
    ENGINE_TRY(optional_f32(file, "rope.scaling.yarn_beta_fast", &yarn->beta_fast));
    ENGINE_TRY(optional_f32(file, "rope.scaling.yarn_beta_slow", &yarn->beta_slow));
    ENGINE_TRY(optional_f32(file, "rope.scaling.yarn_attn_factor", &yarn->attention_factor));
    if (!(factor > 0))
        return refuse_key("rope.scaling.factor", "is not above 0");
    yarn->factor = factor;
    yarn->original_context = (float)original_context;
    return QSA_OK;
}

/* A factor without a type is linear scaling, which others apply and libqsa does not know. */
static qsa_status read_yarn(const gguf_file *file, const model_shape *s, qsa_yarn *yarn)
{
    const char *type = "linear";
    float factor = 1;
    if (has(file, "rope.scaling.type"))
        ENGINE_TRY(gguf_file_string(file, key("rope.scaling.type").text, &type));
    ENGINE_TRY(read_factor(file, &factor));
    if (strcmp(type, "none") == 0)
        return QSA_OK;
    ENGINE_TRY(check_factors(file));
    if (strcmp(type, "yarn") == 0)
        return read_yarn_factors(file, s, factor, yarn);
    if (strcmp(type, "linear") != 0) {
        return engine_fail(QSA_E_UNSUPPORTED, "qwen4exp.rope.scaling.type is \"%.40s\", supported are none and yarn",
                           type);
    }
    if (factor != 1) {
        return engine_fail(QSA_E_UNSUPPORTED,
                           "qwen4exp.rope.scaling.factor is %g in linear scaling (%s), which is not "
                           "supported: only none and yarn are",
                           (double)factor,
                           has(file, "rope.scaling.type") ? "its type" : "rope.scaling.type is missing");
    }
    return QSA_OK;
}

static qsa_status read_rope(const gguf_file *file, model_shape *s)
{
    uint32_t sections[SECTIONS];
    ENGINE_TRY(read_count(file, "rope.dimension_count", QSA_MAX_DIM, &s->qsa.rotary_dim));
    ENGINE_TRY(gguf_file_f32(file, key("rope.freq_base").text, &s->qsa.theta));
    ENGINE_TRY(gguf_file_u32s(file, key("rope.dimension_sections").text, sections, SECTIONS));
    if (sections[3] != 0)
        return engine_fail(QSA_E_FORMAT, "qwen4exp.rope.dimension_sections ends in %u, expected 0", sections[3]);
    memcpy(s->qsa.sections, sections, sizeof s->qsa.sections);
    return read_yarn(file, s, &s->qsa.yarn);
}

static qsa_status read_qsa(const gguf_file *file, model_shape *s)
{
    uint32_t value_dim = 0;
    const count_key keys[] = {
        {"attention.head_count", QSA_MAX_Q_HEADS, &s->qsa.q_heads, COUNT_QSA_LAYERS},
        {"attention.head_count_kv", QSA_MAX_Q_HEADS, &s->qsa.kv_heads, COUNT_QSA_LAYERS},
        {"attention.key_length", QSA_MAX_DIM, &s->qsa.head_dim, COUNT_QSA_LAYERS},
        {"attention.value_length", QSA_MAX_DIM, &value_dim, COUNT_QSA_LAYERS},
        {"attention.indexer.head_count", QSA_MAX_Q_HEADS, &s->qsa.index_heads, COUNT_QSA_LAYERS},
        {"attention.indexer.key_length", QSA_MAX_DIM, &s->qsa.index_dim, COUNT_QSA_LAYERS},
        {"attention.indexer.top_k", QSA_MAX_BUDGET, &s->qsa.budget, COUNT_QSA_LAYERS},
    };
    qsa_config_init(&s->qsa);
    ENGINE_TRY(read_counts(file, s, keys, sizeof keys / sizeof keys[0]));
    ENGINE_TRY(read_rope(file, s));
    ENGINE_TRY(read_ratio(file, s));
    if (value_dim != s->qsa.head_dim) {
        return engine_fail(QSA_E_FORMAT, "qwen4exp.attention.value_length is %u, but key_length is %u", value_dim,
                           s->qsa.head_dim);
    }
    s->qsa.layers = s->qsa_layers;
    s->qsa.eps = s->eps;
    qsa_memory_plan plan;
    const qsa_status status = qsa_plan_memory(&s->qsa, &plan);
    return status == QSA_OK ? QSA_OK : engine_fail(QSA_E_FORMAT, "the file's attention shape: %s", qsa_error_detail());
}

/* ---- delta nets ---- */

static qsa_status read_delta(const gguf_file *file, model_shape *s)
{
    delta_shape *d = &s->delta;
    const count_key keys[] = {
        {"ssm.conv_kernel", MODEL_MAX_CONV, &d->conv, COUNT_ONCE},
        {"ssm.state_size", QSA_MAX_DIM, &d->dim, COUNT_ONCE},
        {"ssm.group_count", MODEL_MAX_WIDTH, &d->key_heads, COUNT_ONCE},
        {"ssm.time_step_rank", MODEL_MAX_WIDTH, &d->value_heads, COUNT_ONCE},
        {"ssm.inner_size", MODEL_MAX_WIDTH, &d->inner, COUNT_ONCE},
    };
    ENGINE_TRY(read_counts(file, s, keys, sizeof keys / sizeof keys[0]));
    if ((uint64_t)d->value_heads * d->dim != d->inner) {
        return engine_fail(QSA_E_FORMAT,
                           "qwen4exp.ssm.inner_size is %u, but time_step_rank %u times state_size %u is %llu", d->inner,
                           d->value_heads, d->dim, (unsigned long long)d->value_heads * d->dim);
    }
    if (d->value_heads % d->key_heads != 0) {
        return engine_fail(QSA_E_FORMAT, "qwen4exp.ssm.time_step_rank is %u, no multiple of group_count %u",
                           d->value_heads, d->key_heads);
    }
    d->channels = 2 * d->key_heads * d->dim + d->inner; /* at most 3 * MODEL_MAX_WIDTH */
    return QSA_OK;
}

/* ---- n-gram embedding ---- */

static qsa_status read_ngram_layers(const gguf_file *file, model_shape *s)
{
    size_t n = 0;
    ENGINE_TRY(gguf_file_length(file, key("ple.layers").text, &n));
    if (n > s->layers)
        return engine_fail(QSA_E_FORMAT, "qwen4exp.ple.layers lists %zu layers of %u", n, s->layers);
    uint32_t listed[MODEL_MAX_LAYERS];
    ENGINE_TRY(gguf_file_u32s(file, key("ple.layers").text, listed, n));
    for (size_t i = 0; i < n; i++) {
        if (listed[i] >= s->layers || s->has_ngram[listed[i]]) {
            return engine_fail(QSA_E_FORMAT, "qwen4exp.ple.layers names layer %u, which %s", listed[i],
                               listed[i] >= s->layers ? "the model does not have" : "it names already");
        }
        s->has_ngram[listed[i]] = true;
    }
    s->ngram_layers = (uint32_t)n;
    return QSA_OK;
}

static qsa_status read_ngram_sizes(const gguf_file *file, const model_shape *s, ngram_shape *g)
{
    uint32_t eos = 0;
    const count_key keys[] = {
        {"ple.ngram_size", MODEL_MAX_NGRAM, &g->size, COUNT_ONCE},
        {"ple.heads_per_ngram", MODEL_MAX_HEADS_PER_NGRAM, &g->heads_per_ngram, COUNT_ONCE},
        {"ple.conv_kernel", MODEL_MAX_CONV, &g->conv, COUNT_ONCE},
        {"embedding_length_per_layer_input", MODEL_MAX_WIDTH, &g->dim, COUNT_ONCE},
    };
    ENGINE_TRY(read_counts(file, s, keys, sizeof keys / sizeof keys[0]));
    ENGINE_TRY(gguf_file_u32(file, key("ple.eos_token_id").text, &eos));
    if (g->size < 2)
        return refuse_key("ple.ngram_size", "is 1, expected at least 2");
    if (eos >= s->vocabulary) {
        return engine_fail(QSA_E_FORMAT, "qwen4exp.ple.eos_token_id is %u, but the vocabulary has %u tokens", eos,
                           s->vocabulary);
    }
    g->eos = (int32_t)eos;
    g->heads = g->heads_per_ngram * (g->size - 1);
    if ((uint64_t)g->heads * g->dim != s->embedding) {
        return engine_fail(QSA_E_FORMAT,
                           "qwen4exp.embedding_length_per_layer_input is %u: %u rows of it are not the "
                           "embedding length %u",
                           g->dim, g->heads, s->embedding);
    }
    return QSA_OK;
}

/* Products of a token and a multiplier stay below 2^63, so that they fit the integers of any implementation. */
static qsa_status check_ngram_numbers(const model_shape *s, const ngram_shape *g)
{
    const uint64_t most = (UINT64_C(1) << 63) - 1;
    for (uint32_t k = 0; k < g->size; k++) {
        if (s->vocabulary > 1 && g->multipliers[k] > most / (s->vocabulary - 1)) {
            return engine_fail(QSA_E_FORMAT,
                               "qwen4exp.ple.layer_multipliers[%u] is %llu: its product with a token can "
                               "reach 2^63",
                               k, (unsigned long long)g->multipliers[k]);
        }
    }
    for (uint32_t h = 0; h < g->heads; h++) {
        if (g->sizes[h] == 0 || g->sizes[h] > INT32_MAX || g->offsets[h] > INT32_MAX - g->sizes[h]) {
            return engine_fail(QSA_E_FORMAT,
                               "qwen4exp.ple.head_vocab_sizes[%u] is %llu at offset %llu, expected 1 or "
                               "more rows and less than 2^31 in all",
                               h, (unsigned long long)g->sizes[h], (unsigned long long)g->offsets[h]);
        }
    }
    return QSA_OK;
}

static qsa_status read_ngram(const gguf_file *file, model_shape *s)
{
    if (!has(file, "ple.layers"))
        return QSA_OK;
    ENGINE_TRY(read_ngram_layers(file, s));
    if (s->ngram_layers == 0)
        return QSA_OK;
    ngram_shape *g = &s->ngram;
    ENGINE_TRY(read_ngram_sizes(file, s, g));
    ENGINE_TRY(gguf_file_u64s(file, key("ple.layer_multipliers").text, g->multipliers, g->size));
    ENGINE_TRY(gguf_file_u64s(file, key("ple.head_offsets").text, g->offsets, g->heads));
    ENGINE_TRY(gguf_file_u64s(file, key("ple.head_vocab_sizes").text, g->sizes, g->heads));
    return check_ngram_numbers(s, g);
}

/* ---- the whole ---- */

static qsa_status check_architecture(const gguf_file *file)
{
    const char *architecture = NULL;
    ENGINE_TRY(gguf_file_string(file, "general.architecture", &architecture));
    if (strcmp(architecture, "qwen4exp") != 0) {
        return engine_fail(QSA_E_UNSUPPORTED, "the file's architecture is \"%.40s\", supported is qwen4exp",
                           architecture);
    }
    const char *type = "model";
    if (gguf_file_has(file, "general.type"))
        ENGINE_TRY(gguf_file_string(file, "general.type", &type));
    if (strcmp(type, "model") != 0)
        return engine_fail(QSA_E_UNSUPPORTED, "general.type is \"%.40s\", supported is model", type);
    return QSA_OK;
}

/* No key has the size of the vocabulary: it is the number of rows of the embedding. */
static qsa_status read_vocabulary(const gguf_file *file, model_shape *s)
{
    const gguf_file_tensor *embedding = gguf_file_find(file, "token_embd.weight");
    if (embedding == NULL)
        return engine_fail(QSA_E_FORMAT, "tensor token_embd.weight is missing");
    if (embedding->dims[1] > INT32_MAX)
        return engine_fail(QSA_E_LIMIT, "token_embd.weight has %lld rows", (long long)embedding->dims[1]);
    s->vocabulary = (uint32_t)embedding->dims[1];
    return QSA_OK;
}

qsa_status model_shape_read(const gguf_file *file, model_shape *out_shape)
{
    memset(out_shape, 0, sizeof *out_shape);
    ENGINE_TRY(check_architecture(file));
    ENGINE_TRY(read_vocabulary(file, out_shape));
    ENGINE_TRY(read_sizes(file, out_shape));
    ENGINE_TRY(read_kinds(file, out_shape));
    ENGINE_TRY(read_qsa(file, out_shape));
    ENGINE_TRY(read_delta(file, out_shape));
    return read_ngram(file, out_shape);
}
