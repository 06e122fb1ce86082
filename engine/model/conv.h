/* SPDX-License-Identifier: Apache-2.0 */
/* Causal depthwise convolution along the tokens of each session of a batch. */
#ifndef QSA_ENGINE_MODEL_CONV_H
#define QSA_ENGINE_MODEL_CONV_H

#include "model/pass.h"

typedef struct batch_conv {
    const float *weights; /* [taps][channels]; the last tap is the current token */
    size_t taps, dilation, channels;
    size_t state_offset; /* of its tail [(taps - 1) * dilation][channels] in the recurrent state */
    const float *x;      /* [T][channels] */
    float *out;          /* [T][channels]: silu of the convolution */
} batch_conv;

/* Writes the tails after these tokens too. */
void conv_batch(pass *p, const batch_conv *conv);

#endif
