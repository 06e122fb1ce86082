/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to vectors as they enter: norm and rotation (SPEC section 3), the check of inputs, rounding to bf16. */
#include "base/elementary.h"
#include "kernels/functions.h"

/* The profile's rounding of a result that is already an f32. */
static inline float round_to(bool bf16, float x)
{
    return bf16 ? qsa_round_bf16(x) : x;
}

static void norm(const float *x, uint32_t dim, const float *weight, float eps, bool bf16, float *out)
{
    float squares = 0.0f;
    for (uint32_t i = 0; i < dim; i++)
        squares = fmaf(x[i], x[i], squares);
    float mean = squares / (float)dim;
    float scale = 1.0f / sqrtf(mean + eps);
    for (uint32_t i = 0; i < dim; i++)
        out[i] = round_to(bf16, (x[i] * scale) * weight[i]);
}

/* Pairs (i, i + pairs). No fma: every product and every sum is rounded. */
static void rotate(float *y, uint32_t pairs, const float *cos, const float *sin, bool bf16)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float low = y[i], high = y[i + pairs];
        y[i] = round_to(bf16, round_to(bf16, low * cos[i]) - round_to(bf16, high * sin[i]));
        y[i + pairs] = round_to(bf16, round_to(bf16, high * cos[i]) + round_to(bf16, low * sin[i]));
    }
}

void qsa_norm_rotate__scalar(const float *x, size_t stride, uint32_t heads, uint32_t dim, const float *weight,
                             float eps, uint32_t pairs, const float *cos, const float *sin, size_t angle_stride,
                             bool bf16, float *out)
{
    for (uint32_t h = 0; h < heads; h++) {
        float *y = out + (size_t)h * dim;
        norm(x + h * stride, dim, weight, eps, bf16, y);
        rotate(y, pairs, cos + h * angle_stride, sin + h * angle_stride, bf16);
    }
}

size_t qsa_check__scalar(const float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= limit)) /* false for a NaN too */
            return i;
    return n;
}

void qsa_to_bf16__scalar(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = qsa_f32_to_bf16(x[i]);
}
