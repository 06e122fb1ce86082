/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a qwen4exp file, found by name, checked by shape (SPEC section 8).
 *
 * Matrices are ggml tensors whose data lie in the mapped file, so they cost no memory; with QSA_WEIGHTS_F32, or where
 * ggml has no product for a type, they are dequantised once. Vectors, which our own nodes read, are f32 always. Shapes
 * in comments: fastest dimension first. */
#ifndef QSA_ENGINE_MODEL_WEIGHTS_H
#define QSA_ENGINE_MODEL_WEIGHTS_H

#include "model/shape.h"

#include <qsa_engine.h>

/* Hyper-connection. norm [streams * E], down {streams*E, low rank}, up {low rank, streams*E}, inject {streams*E,
 * streams} (NULL for the last one, which ends the model). With a short rank (hyper_low.h) all are f32, and up_turned is
 * up once more; otherwise it is NULL. */
typedef struct hyper_weights {
    const float *norm;
    struct ggml_tensor *down, *up, *inject;
    const float *up_turned;
} hyper_weights;

/* Experts. Either gate_up {E, 2 * width, experts}, gate rows first, or gate and up {E, width, experts}. */
typedef struct expert_weights {
    struct ggml_tensor *router; /* {E, experts} */
    struct ggml_tensor *gate_up, *gate, *up;
    struct ggml_tensor *down;                                  /* {width, E, experts} */
    struct ggml_tensor *shared_router;                         /* {E, 1} */
    struct ggml_tensor *shared_gate, *shared_up, *shared_down; /* {E, shared width} twice, {shared width, E} */
} expert_weights;

/* A QSA layer. Either q {E, heads * 2 * D} (a head's query, then its gate), k and v {E, kv heads * D}, or all in qkv.
 */
typedef struct attention_weights {
    struct ggml_tensor *qkv, *q, *k, *v;
    struct ggml_tensor *output;            /* {heads * D, E} */
    struct ggml_tensor *index_q, *index_k; /* {E, index heads * index D}, {E, index D} */
    qsa_norm_weights norms;
} attention_weights;

/* A gated delta net. */
typedef struct delta_weights {
    struct ggml_tensor *qkv, *gate;   /* {E, channels}, {E, inner} */
    struct ggml_tensor *alpha, *beta; /* {E, value heads} */
    struct ggml_tensor *output;       /* {inner, E} */
    const float *conv;                /* [taps][channels] */
    const float *dt, *a;              /* [value heads] */
    const float *norm;                /* [D] */
} delta_weights;

/* The n-gram embedding of a layer. */
typedef struct ngram_weights {
    struct ggml_tensor *key, *value;                /* {E, streams * E}, {E, E} */
    const float *norm_key, *norm_query, *norm_conv; /* [streams * E] */
    const float *conv;                              /* [taps][streams * E] */
} ngram_weights;

typedef struct layer_weights {
    hyper_weights hyper_mixer, hyper_experts; /* around the delta net or attention; around the experts */
    expert_weights experts;
    attention_weights attention; /* of a QSA layer */
    delta_weights delta;         /* of a delta net */
    ngram_weights ngram;         /* where the shape says so */
} layer_weights;

typedef struct model_weights {
    struct ggml_context *context;           /* of all tensors below */
    int64_t least_columns[GGML_TYPE_COUNT]; /* 1 or LEAST_COLUMNS: of products with that type (batch_check.h) */
    struct ggml_tensor *embedding, *output; /* {E, V}; the same one if tied */
    struct ggml_tensor *ngram_rows;         /* {row, rows}; NULL without n-gram embedding */
    hyper_weights hyper_head;
    layer_weights *layers; /* [layers] */
    void **owned;          /* what was dequantised */
    size_t owned_count;
    uint64_t owned_bytes;
} model_weights;

/* Errors: QSA_E_FORMAT (a tensor missing or of another shape, by name), QSA_E_NONFINITE (a vector with a value that is
 * not finite, by name), QSA_E_MEMORY. file must outlive the weights. On failure nothing is left to free. */
qsa_status model_weights_bind(const gguf_file *file, const model_shape *shape, qsa_weights storage,
                              model_weights *out_weights);
void model_weights_free(model_weights *weights);

#endif
