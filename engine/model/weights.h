/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a qwen4exp file, found by name, checked by shape (SPEC section 8).
 *
 * Matrices stay in the mapped file and cost no memory. With QSA_WEIGHTS_F32, or if products do not support their type
 * (ternary ones), they are dequantised once. Vectors are read element by element and always f32. Shapes in comments
 * have the fastest dimension first. data NULL: there is no such matrix. */
#ifndef QSA_ENGINE_MODEL_WEIGHTS_H
#define QSA_ENGINE_MODEL_WEIGHTS_H

#include "model/shape.h"

#include <products/products.h>
#include <qsa_engine.h>

/* Hyper-connection. norm [streams * E], down {streams * E, low rank}, up {low rank, streams * E}, inject {streams * E,
 * streams}; the last one, at the end of the model, has no inject. */
typedef struct hyper_weights {
    const float *norm;
    qsa_weights down, up, inject;
} hyper_weights;

/* A matrix per expert. */
typedef struct expert_matrices {
    qsa_weights first; /* of expert 0 */
    size_t bytes;      /* from one expert's matrix to the next */
} expert_matrices;

typedef struct expert_weights {
    qsa_weights router;                              /* {E, experts} */
    expert_matrices gate, up;                        /* {E, width} */
    expert_matrices down;                            /* {width, E} */
    qsa_weights shared_router;                       /* {E, 1} */
    qsa_weights shared_gate, shared_up, shared_down; /* {E, shared width} twice, {shared width, E} */
} expert_weights;

/* A QSA layer. */
typedef struct attention_weights {
    qsa_weights q;                /* {E, heads * 2 * D}: a head's query, then its gate */
    qsa_weights k, v;             /* {E, kv heads * D} */
    qsa_weights output;           /* {heads * D, E} */
    qsa_weights index_q, index_k; /* {E, index heads * index D}, {E, index D} */
    qsa_norm_weights norms;
} attention_weights;

/* A gated delta net. */
typedef struct delta_weights {
    qsa_weights qkv, gate;   /* {E, channels}, {E, inner} */
    qsa_weights alpha, beta; /* {E, value heads} */
    qsa_weights output;      /* {inner, E} */
    const float *conv;       /* [taps][channels] */
    const float *dt, *a;     /* [value heads] */
    const float *norm;       /* [D] */
} delta_weights;

/* The n-gram embedding of a layer. */
typedef struct ngram_weights {
    qsa_weights key, value;                         /* {E, streams * E}, {E, E} */
    const float *norm_key, *norm_query, *norm_conv; /* [streams * E] */
    const float *conv;                              /* [taps][streams * E] */
} ngram_weights;

typedef struct layer_weights {
    hyper_weights hyper_mixer, hyper_experts; /* around the delta net or attention; around the experts */
    expert_weights experts;
    attention_weights attention; /* only in a QSA layer */
    delta_weights delta;         /* only in a delta net */
    ngram_weights ngram;         /* only in the layers that the shape lists */
} layer_weights;

/* What the products of a matrix are multiplied by: y = scale * (W x), rounded after the product. */
typedef struct weight_scale {
    const char *begin, *end; /* the matrix, or the matrices of all experts */
    const float *values;     /* [n] */
    size_t n;                /* 1, or one per expert */
} weight_scale;

typedef struct model_weights {
    qsa_weights embedding, output; /* {E, V}; the same matrix if tied */
    qsa_weights ngram_rows;        /* {row, rows}; only with n-gram embedding */
    hyper_weights hyper_head;
    layer_weights *layers; /* [layers] */
    weight_scale *scales;  /* [scale_count], ascending */
    size_t scale_count;
    bool *bound;  /* [tensors of the file]: it is read */
    void **owned; /* dequantised matrices and vectors, reordered convolutions */
    size_t owned_count;
    uint64_t owned_bytes;
} model_weights;

/* Errors: QSA_E_FORMAT (a tensor missing or of another shape, by name), QSA_E_NONFINITE (a vector with a value that is
 * not finite, by name), QSA_E_MEMORY. file must outlive the weights. On failure nothing is left to free. */
qsa_status model_weights_bind(const gguf_file *file, const model_shape *shape, qsa_weight_storage storage,
                              model_weights *out_weights);
void model_weights_free(model_weights *weights);

/* The scales of the matrix that begins at data; NULL: none. */
const weight_scale *model_weights_scale(const model_weights *weights, const void *data);

#endif
