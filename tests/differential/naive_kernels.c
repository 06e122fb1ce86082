/* SPDX-License-Identifier: Apache-2.0 */
#include "naive_kernels.h"

#include <math.h>
#include <string.h>

float naive_chain(const float *a, size_t a_step, const float *b, size_t b_step, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum = fmaf(a[i * a_step], b[i * b_step], sum);
    return sum;
}

float naive_score(const float *q, size_t heads, size_t dim, const float *keys, size_t groups, size_t group)
{
    float score = 0.0f;
    for (size_t h = 0; h < heads; h++) {
        float dot = naive_chain(q + h * dim, 1, keys + group, groups, dim);
        if (dot < 0.0f)
            dot = 0.0f;
        score = score + dot;
    }
    return score;
}

float naive_e2(float x)
{
    static const float c[] = {
        0x1.444p-13f, 0x1.5f48cp-10f, 0x1.3b2a1cp-7f, 0x1.c6aeccp-5f, 0x1.ebfbep-3f, 0x1.62e43p-1f, 1.0f};
    if (!(x >= -126.0f))
        return 0.0f;
    float n = rintf(x);
    float p = c[0];
    for (int i = 1; i < 7; i++)
        p = fmaf(p, x - n, c[i]);
    return ldexpf(p, (int)n);
}

float naive_weights(float *x, size_t n)
{
    float maximum = x[0];
    for (size_t j = 0; j < n; j++)
        maximum = fmaxf(maximum, x[j]);
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) {
        x[j] = naive_e2(x[j] - maximum);
        sum = sum + x[j];
    }
    return sum;
}

float naive_weighted_sum(const float *p, const float *v, size_t n, size_t dim, size_t d, float sum)
{
    float product = naive_chain(p, 1, v + d, dim, n) * (1.0f / sum);
    return product == 0.0f ? 0.0f : product;
}

static float widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t naive_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t down = (uint16_t)(bits >> 16), up = (uint16_t)(down + 1); /* towards zero, away from it */
    /* Past the largest bf16 comes what would be 2^128: infinity stands for it. */
    double above = isinf(widen(up)) ? copysign(0x1p128, x) : (double)widen(up);
    double to_down = fabs((double)x - (double)widen(down)), to_up = fabs(above - (double)x);
    if (to_down == to_up)
        return down % 2 == 0 ? down : up;
    return to_down < to_up ? down : up;
}

void naive_norm_rotate(const float *x, size_t dim, const float *weight, float eps, size_t pairs, const float *cos,
                       const float *sin, bool bf16, float *out)
{
    float t = naive_chain(x, 1, x, 1, dim) / (float)dim;
    t = t + eps;
    float u = 1.0f / sqrtf(t);
    for (size_t i = 0; i < dim; i++) {
        float scaled = x[i] * u;
        out[i] = scaled * weight[i];
        if (bf16)
            out[i] = widen(naive_bf16(out[i]));
    }
    for (size_t i = 0; i < pairs; i++) {
        float low = out[i], high = out[i + pairs];
        float products[4] = {low * cos[i], high * sin[i], high * cos[i], low * sin[i]};
        for (int k = 0; bf16 && k < 4; k++)
            products[k] = widen(naive_bf16(products[k]));
        out[i] = products[0] - products[1];
        out[i + pairs] = products[2] + products[3];
        if (bf16) {
            out[i] = widen(naive_bf16(out[i]));
            out[i + pairs] = widen(naive_bf16(out[i + pairs]));
        }
    }
}
