/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a qwen4exp model from its file's keys (SPEC section 8), every one checked: all numbers here are
 * consistent, and libqsa accepts the QSA shape. */
#ifndef QSA_ENGINE_MODEL_SHAPE_H
#define QSA_ENGINE_MODEL_SHAPE_H

#include "file/gguf_file.h"

#include <qsa/qsa.h>

/* Limits of a model beyond libqsa's; a file beyond one is refused, and the detail names it. */
enum {
    MODEL_MAX_LAYERS = 1024,
    MODEL_MAX_WIDTH = 1 << 20, /* of any one dimension but the vocabulary */
    MODEL_MAX_STREAMS = 64,
    MODEL_MAX_EXPERTS = 65536,
    MODEL_MAX_EXPERTS_USED = 512,
    MODEL_MAX_CONV = 64, /* taps of a convolution */
    MODEL_MAX_NGRAM = 8,
    MODEL_MAX_HEADS_PER_NGRAM = 64
};

enum { MODEL_MAX_NGRAM_HEADS = (MODEL_MAX_NGRAM - 1) * MODEL_MAX_HEADS_PER_NGRAM };

typedef enum layer_kind { LAYER_DELTA_NET, LAYER_QSA } layer_kind;

typedef struct delta_shape {
    uint32_t conv; /* taps */
    uint32_t dim;  /* of a head */
    uint32_t key_heads;
    uint32_t value_heads; /* value head j uses key head j mod key_heads */
    uint32_t inner;       /* value_heads * dim */
    uint32_t channels;    /* of the convolution: q, k, v */
} delta_shape;

typedef struct ngram_shape {
    uint32_t size; /* tokens of the longest n-gram */
    uint32_t heads_per_ngram;
    uint32_t heads; /* rows read for a token: heads_per_ngram * (size - 1) */
    uint32_t dim;   /* of a row */
    uint32_t conv;  /* taps, `size` tokens apart */
    int32_t eos;
    uint64_t multipliers[MODEL_MAX_NGRAM];
    uint64_t offsets[MODEL_MAX_NGRAM_HEADS];
    uint64_t sizes[MODEL_MAX_NGRAM_HEADS];
} ngram_shape;

typedef struct model_shape {
    uint32_t layers, qsa_layers, ngram_layers;
    uint32_t draft_layers; /* blocks behind the layers, which draft tokens (MTP); not read */
    uint32_t embedding, context, vocabulary;
    uint32_t streams, low_rank;
    uint32_t experts, experts_used, expert_width, shared_width;
    float eps;
    qsa_config qsa; /* shape only, without norms; its profile, types and sizes are the defaults */
    bool ratios_missing;
    delta_shape delta;
    ngram_shape ngram;
    layer_kind kinds[MODEL_MAX_LAYERS];
    bool has_ngram[MODEL_MAX_LAYERS];
} model_shape;

/* Reads and checks the keys; vocabulary comes from the embedding's shape. Errors: QSA_E_UNSUPPORTED (another
 * architecture or rope scaling), QSA_E_FORMAT (a key missing, zero, or inconsistent with another), QSA_E_LIMIT. */
qsa_status model_shape_read(const gguf_file *file, model_shape *out_shape);

#endif
