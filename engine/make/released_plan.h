/* SPDX-License-Identifier: Apache-2.0 */
/* The widths of Qwen3.8-Flash-Next, and the tensors of a checkpoint with these widths and random weights. */
#ifndef QSA_ENGINE_MAKE_RELEASED_PLAN_H
#define QSA_ENGINE_MAKE_RELEASED_PLAN_H

#include "make/checkpoint.h"

#include <qsa_engine.h>

enum {
    RELEASED_EMBEDDING = 2560,
    RELEASED_CONTEXT = 262144,
    RELEASED_INTERVAL = 4, /* three delta nets, then one QSA layer */
    RELEASED_STREAMS = 4,
    RELEASED_LOW_RANK = 320,
    RELEASED_EXPERTS_USED = 10,
    RELEASED_EXPERT_WIDTH = 640,
    RELEASED_SHARED_WIDTH = 640,

    RELEASED_Q_HEADS = 24,
    RELEASED_KV_HEADS = 2,
    RELEASED_HEAD_DIM = 256,
    RELEASED_INDEX_HEADS = 4,
    RELEASED_INDEX_DIM = 128,
    RELEASED_BUDGET = 2048,
    RELEASED_RATIO = 4,
    RELEASED_ROTARY_DIMS = 64,

    RELEASED_STATE_DIM = 128,
    RELEASED_STATE_K_HEADS = 16,
    RELEASED_STATE_V_HEADS = 48,
    RELEASED_STATE_INNER = RELEASED_STATE_V_HEADS * RELEASED_STATE_DIM,
    RELEASED_STATE_CHANNELS = 2 * RELEASED_STATE_K_HEADS * RELEASED_STATE_DIM + RELEASED_STATE_INNER,
    RELEASED_CONVOLUTION = 4,

    RELEASED_NGRAM_LAYER = 1,
    RELEASED_NGRAM_SIZE = 3,
    RELEASED_NGRAM_HEADS_EACH = 8,
    RELEASED_NGRAM_HEADS = (RELEASED_NGRAM_SIZE - 1) * RELEASED_NGRAM_HEADS_EACH,
    RELEASED_NGRAM_DIM = 160,
    RELEASED_NGRAM_CONVOLUTION = 4,

    RELEASED_SPECIALS = 276, /* special tokens at the end of the vocabulary; the first is the end of text */
    RELEASED_IMAGE = 12,     /* index of the image token among them */

    RELEASED_MIN_LAYERS = RELEASED_INTERVAL,
    RELEASED_MAX_LAYERS = 1024,
    RELEASED_MAX_EXPERTS = 4096,
    RELEASED_MIN_VOCABULARY = 1024,
    RELEASED_MAX_VOCABULARY = 248320,
    RELEASED_MIN_NGRAM_ROWS = 1024,
    RELEASED_MAX_NGRAM_ROWS = 2000000000, /* rows are counted in 31 bits */
    RELEASED_MAX_SHARDS = 99,
};

/* A tensor of random numbers, uniform in [centre - spread, centre + spread]. */
typedef struct released_tensor {
    checkpoint_tensor shape;
    float centre, spread;
} released_tensor;

typedef struct released_plan {
    qsa_random_model options;
    uint32_t ngram_sizes[RELEASED_NGRAM_HEADS]; /* rows of the n-gram table per head: distinct primes */
    uint32_t ngram_rows;
    released_tensor *tensors; /* in the order of the file */
    size_t tensor_count;
} released_plan;

/* Release also after a failure. Errors: QSA_E_ARGUMENT (names the option), QSA_E_MEMORY. */
qsa_status released_plan_init(released_plan *plan, const qsa_random_model *options);
void released_plan_release(released_plan *plan);

#endif
