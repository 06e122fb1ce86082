/* SPDX-License-Identifier: Apache-2.0 */
/* Causal depthwise convolution along the tokens of each session. */
#ifndef QSA_ENGINE_MODEL_CONV_H
#define QSA_ENGINE_MODEL_CONV_H

#include "model/builder.h"

typedef struct conv_options {
    const float *weights; /* [taps][channels]; the last tap is the current token */
    uint32_t taps;
    uint32_t dilation;   /* tokens between two taps */
    size_t state_offset; /* of its tail [(taps - 1) * dilation][channels] in the recurrent state */
} conv_options;

/* silu of the convolution of x [channels, tokens]. */
struct ggml_tensor *conv_silu(graph_builder *b, const conv_options *options, struct ggml_tensor *x);

#endif
