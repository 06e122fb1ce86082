/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weights.h"

#include "base/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128 };

/* State of binding one file's tensors. The first failure is kept, and every later request returns at once. */
typedef struct binder {
    const gguf_file *file;
    const model_shape *shape;
    qsa_weight_storage storage;
    model_weights *weights;
    qsa_status status;
    int layer; /* prefix of tensor names: blk.<layer>.NAME; -1: global */
} binder;

typedef struct tensor_name {
    char text[NAME_BYTES];
} tensor_name;

static tensor_name full_name(const binder *b, const char *name)
{
    tensor_name full;
    if (b->layer < 0)
        snprintf(full.text, sizeof full.text, "%s", name);
    else
        snprintf(full.text, sizeof full.text, "blk.%d.%s", b->layer, name);
    return full;
}

static const gguf_file_tensor *find(const binder *b, const char *name)
{
    return gguf_file_find(b->file, full_name(b, name).text);
}

static void fail(binder *b, qsa_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void fail(binder *b, qsa_status status, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    b->status = engine_fail(status, "%s", line);
}

/* Memory freed with the weights. */
static void *own(binder *b, size_t bytes)
{
    model_weights *w = b->weights;
    void *memory = NULL;
    void **grown = realloc(w->owned, (w->owned_count + 1) * sizeof *grown);
    if (grown != NULL) {
        w->owned = grown;
        memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    }
    if (memory == NULL) {
        fail(b, QSA_E_MEMORY, "no memory for %zu bytes of weights", bytes);
        return NULL;
    }
    w->owned[w->owned_count++] = memory;
    w->owned_bytes += bytes;
    return memory;
}

/* The tensor of that name, if its shape is dims (fastest first); NULL after a failure. */
static const gguf_file_tensor *require(binder *b, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    if (b->status != QSA_OK)
        return NULL;
    const gguf_file_tensor *t = find(b, name);
    if (t == NULL) {
        fail(b, QSA_E_FORMAT, "tensor %s is missing", full_name(b, name).text);
        return NULL;
    }
    if (t->dims[0] != d0 || t->dims[1] != d1 || t->dims[2] != d2 || t->dims[3] != 1) {
        fail(b, QSA_E_FORMAT, "tensor %s has shape %lld x %lld x %lld x %lld, expected %lld x %lld x %lld x 1", t->name,
             (long long)t->dims[0], (long long)t->dims[1], (long long)t->dims[2], (long long)t->dims[3], (long long)d0,
             (long long)d1, (long long)d2);
        return NULL;
    }
    b->weights->bound[t - gguf_file_tensor_at(b->file, 0)] = true;
    return t;
}

static float *dequantised(binder *b, const gguf_file_tensor *t)
{
    float *values = own(b, gguf_file_tensor_elements(t) * sizeof *values);
    if (values != NULL)
        gguf_file_dequantise(t, values);
    return values;
}

/* Rows that are looked up, or a matrix without a scale. */
static qsa_weights table3(binder *b, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const gguf_file_tensor *t = require(b, name, d0, d1, d2);
    if (t == NULL)
        return (qsa_weights){0};
    const bool has_product = qsa_format_find((uint32_t)t->type) != NULL;
    const bool dequantise = !has_product || (b->storage == QSA_WEIGHTS_F32 && t->type != GGML_TYPE_F32);
    const uint32_t type = dequantise ? GGML_TYPE_F32 : (uint32_t)t->type;
    return (qsa_weights){.format = (qsa_format)type,
                         .rows = (size_t)d1,
                         .inner = (size_t)d0,
                         .data = dequantise ? dequantised(b, t) : t->data,
                         .row_bytes = qsa_format_row_bytes((qsa_format)type, (size_t)d0)};
}

static void bind_scale(binder *b, const char *name, const qsa_weights *w, int64_t n);

static qsa_weights matrix3(binder *b, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const qsa_weights w = table3(b, name, d0, d1, d2);
    bind_scale(b, name, &w, d2);
    return w;
}

static qsa_weights matrix2(binder *b, const char *name, int64_t d0, int64_t d1)
{
    return matrix3(b, name, d0, d1, 1);
}

/* f32 values, all finite; d1 > 1: a small matrix. */
static const float *values(binder *b, const char *name, int64_t d0, int64_t d1)
{
    const gguf_file_tensor *t = require(b, name, d0, d1, 1);
    if (t == NULL)
        return NULL;
    const float *x = t->type == GGML_TYPE_F32 ? t->data : dequantised(b, t);
    for (int64_t i = 0; x != NULL && i < d0 * d1; i++) {
        if (!isfinite(x[i])) {
            fail(b, QSA_E_NONFINITE, "tensor %s has a value that is not finite, at %lld", t->name, (long long)i);
            return NULL;
        }
    }
    return x;
}

static const float *vector(binder *b, const char *name, int64_t n)
{
    return values(b, name, n, 1);
}

/* NAME.scale beside NAME.weight, if the file has it: a value, or one per expert. */
static void bind_scale(binder *b, const char *name, const qsa_weights *w, int64_t n)
{
    const char *suffix = strrchr(name, '.');
    char scale[64];
    if (b->status != QSA_OK || suffix == NULL || strcmp(suffix, ".weight") != 0)
        return;
    snprintf(scale, sizeof scale, "%.*s.scale", (int)(suffix - name), name);
    if (find(b, scale) == NULL)
        return;
    const float *factors = vector(b, scale, n);
    weight_scale *grown = realloc(b->weights->scales, (b->weights->scale_count + 1) * sizeof *grown);
    if (grown != NULL)
        b->weights->scales = grown;
    else if (b->status == QSA_OK)
        fail(b, QSA_E_MEMORY, "no memory for the scales of weights");
    if (b->status != QSA_OK)
        return;
    const char *begin = w->data;
    grown[b->weights->scale_count++] =
        (weight_scale){begin, begin + w->rows * w->row_bytes * (size_t)n, factors, (size_t)n};
}

/* Convolution weights {taps, channels} as [taps][channels], so that channels are adjacent. */
static const float *taps(binder *b, const char *name, uint32_t n, uint32_t channels)
{
    const float *by_channel = values(b, name, n, channels);
    float *by_tap = by_channel == NULL ? NULL : own(b, (size_t)n * channels * sizeof *by_tap);
    for (size_t c = 0; by_tap != NULL && c < channels; c++)
        for (size_t k = 0; k < n; k++)
            by_tap[k * channels + c] = by_channel[c * n + k];
    return by_tap;
}

/* ---- the parts of a layer ---- */

static void bind_hyper(binder *b, const char *prefix, bool has_inject, hyper_weights *w)
{
    const model_shape *s = b->shape;
    const int64_t wide = (int64_t)s->streams * s->embedding;
    char name[64];
    snprintf(name, sizeof name, "%s_norm.weight", prefix);
    w->norm = vector(b, name, wide);
    snprintf(name, sizeof name, "%s_down.weight", prefix);
    w->down = matrix2(b, name, wide, s->low_rank);
    snprintf(name, sizeof name, "%s_up.weight", prefix);
    w->up = matrix2(b, name, s->low_rank, wide);
    if (has_inject) {
        snprintf(name, sizeof name, "%s_inject.weight", prefix);
        w->inject = matrix2(b, name, wide, s->streams);
    }
}

/* Rows [first, first + rows). */
static qsa_weights rows_of(const qsa_weights *all, size_t first, size_t rows)
{
    qsa_weights part = *all;
    part.rows = rows;
    if (all->data != NULL)
        part.data = (const char *)all->data + first * all->row_bytes;
    return part;
}

/* The first rows of each expert's matrix {d0, d1}. */
static expert_matrices of_experts(binder *b, const char *name, int64_t d0, int64_t d1, size_t rows)
{
    const qsa_weights all = matrix3(b, name, d0, d1, b->shape->experts);
    return (expert_matrices){rows_of(&all, 0, rows), all.rows * all.row_bytes};
}

static void bind_experts(binder *b, expert_weights *w)
{
    const model_shape *s = b->shape;
    const int64_t e = s->embedding, width = s->expert_width, shared = s->shared_width;
    const size_t rows = s->expert_width;
    w->router = matrix2(b, "ffn_gate_inp.weight", e, s->experts);
    if (find(b, "ffn_gate_up_exps.weight") != NULL) {
        w->gate = of_experts(b, "ffn_gate_up_exps.weight", e, 2 * width, rows);
        w->up = w->gate;
        w->up.first = rows_of(&w->gate.first, rows, rows);
    } else {
        w->gate = of_experts(b, "ffn_gate_exps.weight", e, width, rows);
        w->up = of_experts(b, "ffn_up_exps.weight", e, width, rows);
    }
    w->down = of_experts(b, "ffn_down_exps.weight", width, e, s->embedding);
    w->shared_router = matrix2(b, "ffn_gate_inp_shexp.weight", e, 1);
    w->shared_gate = matrix2(b, "ffn_gate_shexp.weight", e, shared);
    w->shared_up = matrix2(b, "ffn_up_shexp.weight", e, shared);
    w->shared_down = matrix2(b, "ffn_down_shexp.weight", shared, e);
}

static void bind_attention(binder *b, attention_weights *w)
{
    const qsa_config *c = &b->shape->qsa;
    const int64_t e = b->shape->embedding, q = (int64_t)c->q_heads * c->head_dim,
                  kv = (int64_t)c->kv_heads * c->head_dim;
    if (find(b, "attn_qkv.weight") != NULL) {
        const qsa_weights all = matrix2(b, "attn_qkv.weight", e, 2 * q + 2 * kv);
        w->q = rows_of(&all, 0, (size_t)(2 * q));
        w->k = rows_of(&all, (size_t)(2 * q), (size_t)kv);
        w->v = rows_of(&all, (size_t)(2 * q + kv), (size_t)kv);
    } else {
        w->q = matrix2(b, "attn_q.weight", e, 2 * q);
        w->k = matrix2(b, "attn_k.weight", e, kv);
        w->v = matrix2(b, "attn_v.weight", e, kv);
    }
    w->output = matrix2(b, "attn_output.weight", q, e);
    w->index_q = matrix2(b, "indexer.q_proj.weight", e, (int64_t)c->index_heads * c->index_dim);
    w->index_k = matrix2(b, "indexer.k_proj.weight", e, c->index_dim);
    w->norms.q = vector(b, "attn_q_norm.weight", c->head_dim);
    w->norms.k = vector(b, "attn_k_norm.weight", c->head_dim);
    w->norms.index_q = vector(b, "indexer.q_norm.weight", c->index_dim);
    w->norms.index_k = vector(b, "indexer.k_norm.weight", c->index_dim);
}

static void bind_delta(binder *b, delta_weights *w)
{
    const delta_shape *d = &b->shape->delta;
    const int64_t e = b->shape->embedding;
    w->qkv = matrix2(b, "attn_qkv.weight", e, d->channels);
    w->gate = matrix2(b, "attn_gate.weight", e, d->inner);
    w->alpha = matrix2(b, "ssm_alpha.weight", e, d->value_heads);
    w->beta = matrix2(b, "ssm_beta.weight", e, d->value_heads);
    w->output = matrix2(b, "ssm_out.weight", d->inner, e);
    w->conv = taps(b, "ssm_conv1d.weight", d->conv, d->channels);
    w->dt = vector(b, "ssm_dt.bias", d->value_heads);
    w->a = vector(b, "ssm_a", d->value_heads);
    w->norm = vector(b, "ssm_norm.weight", d->dim);
}

static void bind_ngram(binder *b, ngram_weights *w)
{
    const model_shape *s = b->shape;
    const uint32_t wide = s->streams * s->embedding;
    w->key = matrix2(b, "ple_key.weight", s->embedding, wide);
    w->value = matrix2(b, "ple_value.weight", s->embedding, s->embedding);
    w->norm_key = vector(b, "ple_norm_key.weight", wide);
    w->norm_query = vector(b, "ple_norm_query.weight", wide);
    w->norm_conv = vector(b, "ple_norm_conv.weight", wide);
    w->conv = taps(b, "ple_conv1d.weight", s->ngram.conv, wide);
}

static void bind_layer(binder *b, uint32_t layer)
{
    layer_weights *w = &b->weights->layers[layer];
    b->layer = (int)layer;
    bind_hyper(b, "hc_attn", true, &w->hyper_mixer);
    bind_hyper(b, "hc_ffn", true, &w->hyper_experts);
    bind_experts(b, &w->experts);
    if (b->shape->kinds[layer] == LAYER_QSA)
        bind_attention(b, &w->attention);
    else
        bind_delta(b, &w->delta);
    if (b->shape->has_ngram[layer])
        bind_ngram(b, &w->ngram);
}

/* ---- the whole ---- */

/* Every row that a hash can select must exist. */
static void bind_ngram_rows(binder *b)
{
    const ngram_shape *g = &b->shape->ngram;
    const gguf_file_tensor *t = b->status == QSA_OK ? find(b, "per_layer_token_embd.weight") : NULL;
    const int64_t rows = t == NULL ? 0 : t->dims[1]; /* if it is missing, matrix2 says so */
    b->weights->ngram_rows = table3(b, "per_layer_token_embd.weight", g->dim, rows, 1);
    for (uint32_t h = 0; b->status == QSA_OK && h < g->heads; h++) {
        if (g->offsets[h] + g->sizes[h] > (uint64_t)rows) {
            fail(b, QSA_E_FORMAT,
                 "tensor per_layer_token_embd.weight has %lld rows, but ple.head_offsets[%u] and "
                 "head_vocab_sizes[%u] name row %llu",
                 (long long)rows, h, h, (unsigned long long)(g->offsets[h] + g->sizes[h] - 1));
        }
    }
}

static void bind_all(binder *b)
{
    const model_shape *s = b->shape;
    model_weights *w = b->weights;
    b->layer = -1;
    w->embedding = table3(b, "token_embd.weight", s->embedding, s->vocabulary, 1);
    w->output = w->embedding;
    if (find(b, "output.weight") != NULL)
        w->output = matrix2(b, "output.weight", s->embedding, s->vocabulary);
    bind_hyper(b, "output_hc", false, &w->hyper_head);
    if (s->ngram_layers > 0)
        bind_ngram_rows(b);
    for (uint32_t i = 0; i < s->layers && b->status == QSA_OK; i++)
        bind_layer(b, i);
}

static int compare_scales(const void *a, const void *b)
{
    const weight_scale *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

qsa_status model_weights_bind(const gguf_file *file, const model_shape *shape, qsa_weight_storage storage,
                              model_weights *out_weights)
{
    model_weights w = {0};
    binder b = {file, shape, storage, &w, QSA_OK, -1};
    w.layers = calloc(shape->layers, sizeof *w.layers);
    w.bound = calloc(gguf_file_tensor_count(file) + 1, sizeof *w.bound);
    if (w.layers == NULL || w.bound == NULL)
        fail(&b, QSA_E_MEMORY, "no memory for the tensors of %u layers", shape->layers);
    else
        bind_all(&b);
    if (b.status != QSA_OK) {
        model_weights_free(&w);
        return b.status;
    }
    if (w.scale_count > 0)
        qsort(w.scales, w.scale_count, sizeof *w.scales, compare_scales);
    *out_weights = w;
    return QSA_OK;
}

const weight_scale *model_weights_scale(const model_weights *weights, const void *data)
{
    size_t low = 0, high = weights->scale_count; /* the first scale that ends behind data */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((const char *)data < weights->scales[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    const bool is_there = low < weights->scale_count && (const char *)data >= weights->scales[low].begin;
    return is_there ? &weights->scales[low] : NULL;
}

void model_weights_free(model_weights *weights)
{
    for (size_t i = 0; i < weights->owned_count; i++)
        free(weights->owned[i]);
    free(weights->owned);
    free(weights->scales);
    free(weights->bound);
    free(weights->layers);
    memset(weights, 0, sizeof *weights);
}
