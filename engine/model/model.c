/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include "base/available.h"
#include "base/error.h"
#include "file/gguf_residency.h"
#include "model/sampling_keys.h"
#include "model/tokenizer_keys.h"
#include "model/weight_kinds.h"

#include <stdlib.h>
#include <string.h>

const char *qsa_engine_error(void)
{
    return engine_error_detail();
}

/* ---- identity of the file ---- */

static void describe_tensors(const gguf_file *file, qsa_model_info *info)
{
    uint64_t bytes[GGML_TYPE_COUNT] = {0};
    for (size_t i = 0; i < gguf_file_tensor_count(file); i++) {
        const gguf_file_tensor *t = gguf_file_tensor_at(file, i);
        info->parameter_count += gguf_file_tensor_elements(t);
        bytes[t->type] += t->bytes;
    }
    int main_type = 0;
    for (int type = 1; type < GGML_TYPE_COUNT; type++)
        main_type = bytes[type] > bytes[main_type] ? type : main_type;
    info->tensor_count = gguf_file_tensor_count(file);
    info->main_type = ggml_type_name((enum ggml_type)main_type);
}

static void describe_shape(const model_shape *s, qsa_model_info *info)
{
    info->architecture = "qwen4exp";
    info->layers = s->layers;
    info->draft_layers = s->draft_layers;
    info->embedding = s->embedding;
    info->context = s->context;
    info->vocabulary = s->vocabulary;
    info->qsa = s->qsa;
    info->experts = s->experts;
    info->experts_used = s->experts_used;
    info->streams = s->streams;
    info->ngram_layers = s->ngram_layers;
    info->ratios_missing = s->ratios_missing;
}

static qsa_status describe(qsa_model *model)
{
    qsa_model_info *info = &model->info;
    describe_shape(&model->shape, info);
    describe_tensors(model->file, info);
    weight_kinds_count(model->file, &model->shape, model->storage, model->weight_bytes);
    info->shards = gguf_file_shards(model->file);
    info->file_bytes = gguf_file_bytes(model->file);
    info->copied_bytes = model->weights.owned_bytes;
    info->name = "";
    info->eos = -1;
    int32_t token;
    (void)tokenizer_ends_with(model->tokens, &info->eos);
    info->ends = tokenizer_ends(model->tokens, &info->end_count);
    info->tokens = (uint32_t)tokenizer_count(model->tokens);
    info->add_bos = tokenizer_begins_with(model->tokens, &token);
    info->add_eos = tokenizer_closes_with(model->tokens, &token);
    return gguf_file_has(model->file, "general.name") ? gguf_file_string(model->file, "general.name", &info->name)
                                                      : QSA_OK;
}

/* ---- where the weights are ---- */

static bool is_resident(const void *user, const gguf_file_tensor *tensor)
{
    const qsa_model *m = user;
    return !weight_is_copied(tensor, m->storage) &&
           weight_kind_is_resident(weight_kind_of(m->file, &m->shape, tensor->name));
}

static bool is_table(const void *user, const gguf_file_tensor *tensor)
{
    const qsa_model *m = user;
    const qsa_weight_kind kind = weight_kind_of(m->file, &m->shape, tensor->name);
    return kind == QSA_WEIGHT_EMBEDDING || kind == QSA_WEIGHT_TABLE;
}

/* Said before minutes of reading. */
static qsa_status check_room(const qsa_model *model)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf_file_tensor_count(model->file); i++)
        if (is_resident(model, gguf_file_tensor_at(model->file, i)))
            bytes += gguf_file_tensor_at(model->file, i)->bytes;
    qsa_available_memory available;
    qsa_get_available_memory(&available);
    if (bytes <= available_memory_least(&available))
        return QSA_OK;
    const double mib = 1 << 20;
    return engine_fail(QSA_E_MEMORY, "%s: the weights take %.1f MiB, %.1f MiB are available",
                       gguf_file_name(model->file), (double)bytes / mib,
                       (double)available_memory_least(&available) / mib);
}

static qsa_status settle_weights(qsa_model *model, qsa_residency residency)
{
    gguf_file_scatter(model->file, is_table, model);
    if (residency == QSA_RESIDENCY_MAPPED)
        return QSA_OK;
    ENGINE_TRY(check_room(model));
    return (residency == QSA_RESIDENCY_LOADED ? gguf_file_load : gguf_file_lock)(model->file, is_resident, model,
                                                                                 &model->taken_bytes);
}

/* ---- life ---- */

static qsa_status open_parts(qsa_model *model, const char *path, qsa_residency residency)
{
    ENGINE_TRY(gguf_file_open(path, &model->file));
    ENGINE_TRY(model_shape_read(model->file, &model->shape));
    ENGINE_TRY(tokenizer_from_keys(model->file, model->shape.vocabulary, &model->tokens, &model->info.tokenizer));
    ENGINE_TRY(sampling_from_keys(model->file, &model->sampling, &model->recommends_sampling));
    ENGINE_TRY(settle_weights(model, residency));
    ENGINE_TRY(model_weights_bind(model->file, &model->shape, model->storage, &model->weights));
    model->maps_embedding = gguf_file_mapped_at(model->file, model->weights.embedding.data) != NULL &&
                            model->weights.embedding.data != model->weights.output.data;
    model->maps_table = gguf_file_mapped_at(model->file, model->weights.ngram_rows.data) != NULL;
    ENGINE_TRY(left_out_collect(model->file, &model->shape, model->weights.bound, &model->left_out));
    return describe(model);
}

void qsa_model_options_init(qsa_model_options *options)
{
    *options = (qsa_model_options){.size_bytes = sizeof *options, .weights = QSA_WEIGHTS_NATIVE};
}

qsa_status qsa_model_open(const char *path, const qsa_model_options *options, qsa_model **out_model)
{
    if (path == NULL || out_model == NULL)
        return engine_fail(QSA_E_ARGUMENT, "qsa_model_open: path or out_model is NULL");
    if (options != NULL)
        ENGINE_TRY(engine_check_size("qsa_model_options", options->size_bytes, sizeof *options));
    const qsa_weight_storage storage = options == NULL ? QSA_WEIGHTS_NATIVE : options->weights;
    if (storage != QSA_WEIGHTS_NATIVE && storage != QSA_WEIGHTS_F32)
        return engine_fail(QSA_E_ARGUMENT, "qsa_model_open: unknown storage of weights %d", (int)storage);
    const qsa_residency residency = options == NULL ? QSA_RESIDENCY_MAPPED : options->residency;
    if ((unsigned)residency > QSA_RESIDENCY_LOADED)
        return engine_fail(QSA_E_ARGUMENT, "qsa_model_open: unknown residency of weights %d", (int)residency);
    qsa_model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for a model");
    model->storage = storage;
    const qsa_status status = open_parts(model, path, residency);
    if (status != QSA_OK) {
        qsa_model_close(model);
        return status;
    }
    *out_model = model;
    return QSA_OK;
}

void qsa_model_close(qsa_model *model)
{
    if (model == NULL)
        return;
    left_out_free(&model->left_out);
    model_weights_free(&model->weights);
    tokenizer_destroy(model->tokens);
    gguf_file_close(model->file);
    free(model);
}

void qsa_model_get_info(const qsa_model *model, qsa_model_info *out_info)
{
    *out_info = model->info;
}

bool qsa_model_get_sampling(const qsa_model *model, qsa_sampler_options *out_options)
{
    *out_options = model->sampling;
    return model->recommends_sampling;
}

const char *qsa_model_file_at(const qsa_model *model, const void *address)
{
    return model == NULL ? NULL : gguf_file_mapped_at(model->file, address);
}

const qsa_left_out *qsa_model_left_out(const qsa_model *model, size_t *out_n)
{
    *out_n = model->left_out.count;
    return model->left_out.items;
}

qsa_status qsa_model_get_norms(const qsa_model *model, uint32_t qsa_layer, uint32_t *out_layer,
                               qsa_norm_weights *out_norms)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->shape.layers; i++) {
        if (model->shape.kinds[i] == LAYER_QSA && n++ == qsa_layer) {
            *out_layer = i;
            *out_norms = model->weights.layers[i].attention.norms;
            return QSA_OK;
        }
    }
    return engine_fail(QSA_E_ARGUMENT, "QSA layer %u: the model has %u", qsa_layer, model->shape.qsa_layers);
}

/* ---- text ---- */

qsa_status qsa_model_encode(const qsa_model *model, const char *text, size_t length, qsa_specials specials,
                            int32_t **out_tokens, size_t *out_n)
{
    static const tokenizer_specials recognised[] = {[QSA_SPECIALS_NONE] = TOKENIZER_SPECIALS_NONE,
                                                    [QSA_SPECIALS_ALL] = TOKENIZER_SPECIALS_ALL,
                                                    [QSA_SPECIALS_USER_DEFINED] = TOKENIZER_SPECIALS_USER_DEFINED};
    if ((size_t)specials >= sizeof recognised / sizeof recognised[0])
        return engine_fail(QSA_E_ARGUMENT, "%d is no choice of special tokens", (int)specials);
    return tokenizer_encode(model->tokens, text, length, recognised[specials], out_tokens, out_n);
}

qsa_status qsa_model_encode_text(const qsa_model *model, const char *text, size_t length, qsa_specials specials,
                                 int32_t **out_tokens, size_t *out_n)
{
    int32_t bos, eos, *tokens = NULL;
    size_t n = 0;
    ENGINE_TRY(qsa_model_encode(model, text, length, specials, &tokens, &n));
    const bool has_bos = tokenizer_begins_with(model->tokens, &bos),
               has_eos = tokenizer_closes_with(model->tokens, &eos);
    if (has_bos || has_eos) {
        int32_t *grown = realloc(tokens, (n + 2) * sizeof *tokens);
        if (grown == NULL) {
            free(tokens);
            return engine_fail(QSA_E_MEMORY, "no memory for %zu tokens", n + 2);
        }
        tokens = grown;
        if (has_bos) {
            memmove(tokens + 1, tokens, n++ * sizeof *tokens);
            tokens[0] = bos;
        }
        if (has_eos)
            tokens[n++] = eos;
    }
    *out_tokens = tokens;
    *out_n = n;
    return QSA_OK;
}

bool qsa_model_is_end(const qsa_model *model, int32_t token)
{
    for (size_t i = 0; i < model->info.end_count; i++)
        if (model->info.ends[i] == token)
            return true;
    return false;
}

bool qsa_model_is_control(const qsa_model *model, int32_t token)
{
    return tokenizer_is_control(model->tokens, token);
}

qsa_status qsa_model_token_bytes(const qsa_model *model, int32_t token, const char **out_bytes, size_t *out_length)
{
    return tokenizer_token_bytes(model->tokens, token, out_bytes, out_length);
}
