/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors as they enter: RMS norm and rotation (SPEC section 3), the check of inputs, rounding to bf16. */
#include "base/elementary.h"
#include "kernels/contract.h"
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

void qsa_norm_rotate__scalar(const qsa_norm_rotate_call *c)
{
    qsa_expect_norm_rotate(c);
    for (uint32_t h = 0; h < c->heads; h++) {
        float *y = c->out + (size_t)h * c->dim;
        norm(c->x + h * c->stride, c->dim, c->weight, c->eps, c->bf16, y);
        rotate(y, c->pairs, c->cos + h * c->angle_stride, c->sin + h * c->angle_stride, c->bf16);
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
