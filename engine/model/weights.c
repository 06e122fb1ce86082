/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weights.h"

#include "base/error.h"
#include "model/hyper_low.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128, LAYER_TENSORS = 40, GLOBAL_TENSORS = 16 };

/* What the binding of one file needs; the first failure stays, and every later request returns at once. */
typedef struct binder {
    const gguf_file *file;
    const model_shape *shape;
    qsa_weights storage;
    model_weights *weights;
    qsa_status status;
    int layer; /* names below are blk.<layer>.NAME; -1: global */
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

/* Memory of the weights, freed with them. */
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
    return t;
}

/* ggml multiplies by, and takes rows of, every type that it can widen and has a dot product for. */
static bool usable_in_place(enum ggml_type type)
{
    return type == GGML_TYPE_F32 || ggml_get_type_traits_cpu(type)->vec_dot != NULL;
}

static float *dequantised(binder *b, const gguf_file_tensor *t)
{
    float *values = own(b, gguf_file_tensor_elements(t) * sizeof *values);
    if (values != NULL)
        gguf_file_dequantise(t, values);
    return values;
}

static struct ggml_tensor *matrix3(binder *b, const char *name, int64_t d0, int64_t d1, int64_t d2)
{
    const gguf_file_tensor *t = require(b, name, d0, d1, d2);
    if (t == NULL)
        return NULL;
    const bool in_place = usable_in_place(t->type) && (b->storage == QSA_WEIGHTS_NATIVE || t->type == GGML_TYPE_F32);
    void *data = in_place ? (void *)t->data : dequantised(b, t);
    if (data == NULL)
        return NULL;
    struct ggml_tensor *tensor =
        ggml_new_tensor_3d(b->weights->context, in_place ? t->type : GGML_TYPE_F32, d0, d1, d2);
    tensor->data = data;
    ggml_set_name(tensor, t->name);
    return tensor;
}

static struct ggml_tensor *matrix(binder *b, const char *name, int64_t d0, int64_t d1)
{
    return matrix3(b, name, d0, d1, 1);
}

/* f32 values that our own nodes read; d1 > 1: a small matrix. */
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

static const float *turned(binder *b, const struct ggml_tensor *up)
{
    float *out = up == NULL ? NULL : own(b, hyper_turned_floats(b->shape) * sizeof *out);
    if (out != NULL)
        hyper_turn(b->shape, up->data, out);
    return out;
}

static void bind_hyper(binder *b, const char *prefix, bool has_inject, hyper_weights *w)
{
    const model_shape *s = b->shape;
    const int64_t wide = (int64_t)s->streams * s->embedding;
    const qsa_weights storage = b->storage;
    char name[64];
    b->storage = s->low_rank <= SHORT_RANK ? QSA_WEIGHTS_F32 : storage;
    snprintf(name, sizeof name, "%s_norm.weight", prefix);
    w->norm = vector(b, name, wide);
    snprintf(name, sizeof name, "%s_down.weight", prefix);
    w->down = matrix(b, name, wide, s->low_rank);
    snprintf(name, sizeof name, "%s_up.weight", prefix);
    w->up = matrix(b, name, s->low_rank, wide);
    if (has_inject) {
        snprintf(name, sizeof name, "%s_inject.weight", prefix);
        w->inject = matrix(b, name, wide, s->streams);
    }
    b->storage = storage;
    w->up_turned = s->low_rank <= SHORT_RANK ? turned(b, w->up) : NULL;
}

static void bind_experts(binder *b, expert_weights *w)
{
    const model_shape *s = b->shape;
    const int64_t e = s->embedding, width = s->expert_width, shared = s->shared_width;
    w->router = matrix(b, "ffn_gate_inp.weight", e, s->experts);
    if (find(b, "ffn_gate_up_exps.weight") != NULL) {
        w->gate_up = matrix3(b, "ffn_gate_up_exps.weight", e, 2 * width, s->experts);
    } else {
        w->gate = matrix3(b, "ffn_gate_exps.weight", e, width, s->experts);
        w->up = matrix3(b, "ffn_up_exps.weight", e, width, s->experts);
    }
    w->down = matrix3(b, "ffn_down_exps.weight", width, e, s->experts);
    w->shared_router = matrix(b, "ffn_gate_inp_shexp.weight", e, 1);
    w->shared_gate = matrix(b, "ffn_gate_shexp.weight", e, shared);
    w->shared_up = matrix(b, "ffn_up_shexp.weight", e, shared);
    w->shared_down = matrix(b, "ffn_down_shexp.weight", shared, e);
}

static void bind_attention(binder *b, attention_weights *w)
{
    const qsa_config *c = &b->shape->qsa;
    const int64_t e = b->shape->embedding, q = (int64_t)c->q_heads * c->head_dim,
                  kv = (int64_t)c->kv_heads * c->head_dim;
    if (find(b, "attn_qkv.weight") != NULL) {
        w->qkv = matrix(b, "attn_qkv.weight", e, 2 * q + 2 * kv);
    } else {
        w->q = matrix(b, "attn_q.weight", e, 2 * q);
        w->k = matrix(b, "attn_k.weight", e, kv);
        w->v = matrix(b, "attn_v.weight", e, kv);
    }
    w->output = matrix(b, "attn_output.weight", q, e);
    w->index_q = matrix(b, "indexer.q_proj.weight", e, (int64_t)c->index_heads * c->index_dim);
    w->index_k = matrix(b, "indexer.k_proj.weight", e, c->index_dim);
    w->norms.q = vector(b, "attn_q_norm.weight", c->head_dim);
    w->norms.k = vector(b, "attn_k_norm.weight", c->head_dim);
    w->norms.index_q = vector(b, "indexer.q_norm.weight", c->index_dim);
    w->norms.index_k = vector(b, "indexer.k_norm.weight", c->index_dim);
}

static void bind_delta(binder *b, delta_weights *w)
{
    const delta_shape *d = &b->shape->delta;
    const int64_t e = b->shape->embedding;
    w->qkv = matrix(b, "attn_qkv.weight", e, d->channels);
    w->gate = matrix(b, "attn_gate.weight", e, d->inner);
    w->alpha = matrix(b, "ssm_alpha.weight", e, d->value_heads);
    w->beta = matrix(b, "ssm_beta.weight", e, d->value_heads);
    w->output = matrix(b, "ssm_out.weight", d->inner, e);
    w->conv = taps(b, "ssm_conv1d.weight", d->conv, d->channels);
    w->dt = vector(b, "ssm_dt.bias", d->value_heads);
    w->a = vector(b, "ssm_a", d->value_heads);
    w->norm = vector(b, "ssm_norm.weight", d->dim);
}

static void bind_ngram(binder *b, ngram_weights *w)
{
    const model_shape *s = b->shape;
    const uint32_t wide = s->streams * s->embedding;
    w->key = matrix(b, "ple_key.weight", s->embedding, wide);
    w->value = matrix(b, "ple_value.weight", s->embedding, s->embedding);
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

/* Every row that a hash can name must exist. */
static void bind_ngram_rows(binder *b)
{
    const ngram_shape *g = &b->shape->ngram;
    const gguf_file_tensor *t = b->status == QSA_OK ? find(b, "per_layer_token_embd.weight") : NULL;
    const int64_t rows = t == NULL ? 0 : t->dims[1]; /* if it is missing, matrix() says so */
    b->weights->ngram_rows = matrix(b, "per_layer_token_embd.weight", g->dim, rows);
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
    w->embedding = matrix(b, "token_embd.weight", s->embedding, s->vocabulary);
    w->output = w->embedding;
    if (find(b, "output.weight") != NULL)
        w->output = matrix(b, "output.weight", s->embedding, s->vocabulary);
    bind_hyper(b, "output_hc", false, &w->hyper_head);
    if (s->ngram_layers > 0)
        bind_ngram_rows(b);
    for (uint32_t i = 0; i < s->layers && b->status == QSA_OK; i++)
        bind_layer(b, i);
}

qsa_status model_weights_bind(const gguf_file *file, const model_shape *shape, qsa_weights storage,
                              model_weights *out_weights)
{
    model_weights w = {0};
    binder b = {file, shape, storage, &w, QSA_OK, -1};
    const size_t tensors = (size_t)shape->layers * LAYER_TENSORS + GLOBAL_TENSORS;
    const struct ggml_init_params params = {.mem_size = tensors * ggml_tensor_overhead(), .no_alloc = true};
    w.context = ggml_init(params);
    w.layers = calloc(shape->layers, sizeof *w.layers);
    if (w.context == NULL || w.layers == NULL)
        fail(&b, QSA_E_MEMORY, "no memory for the names of %zu tensors", tensors);
    else
        bind_all(&b);
    if (b.status != QSA_OK) {
        model_weights_free(&w);
        return b.status;
    }
    *out_weights = w;
    return QSA_OK;
}

void model_weights_free(model_weights *weights)
{
    for (size_t i = 0; i < weights->owned_count; i++)
        free(weights->owned[i]);
    free(weights->owned);
    free(weights->layers);
    ggml_free(weights->context);
    memset(weights, 0, sizeof *weights);
}
