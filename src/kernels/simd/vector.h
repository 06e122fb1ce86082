/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors as they enter, on vec: RMS norm and rotation (SPEC section 3), the check of inputs, rounding to bf16. */
#ifndef QSA_KERNELS_SIMD_VECTOR_H
#define QSA_KERNELS_SIMD_VECTOR_H

#include "kernels/contract.h"
#include "kernels/simd/chains.h"

/* The profile's rounding of results that are already f32. */
QSA_INLINE vec round_to(bool bf16, vec x)
{
    return bf16 ? vec_round_bf16(x) : x;
}

/* 1 / sqrt(mean of squares + eps) of at most CHAIN_ROWS heads: scales [CHAIN_ROWS]. */
QSA_INLINE void norm_scales(const qsa_norm_rotate_call *c, const float *x, uint32_t heads, float *scales)
{
    const uint32_t vectors = chains(x, c->stride, heads, c->dim, true, scales);
    for (uint32_t v = 0; v < vectors; v++) {
        const vec mean = vec_div(vec_load(scales + LANES * v), vec_set((float)c->dim));
        const vec root = vec_sqrt(vec_add(mean, vec_set(c->eps)));
        vec_store(scales + LANES * v, vec_div(vec_set(1.0f), root));
    }
}

QSA_INLINE void scale_head(const float *x, float scale, uint32_t dim, const float *weight, bool bf16, float *out)
{
    for (uint32_t i = 0; i < dim; i += LANES) {
        const vec scaled = vec_mul(vec_load_first(x + i, dim - i, vec_zero()), vec_set(scale));
        const vec y = vec_mul(scaled, vec_load_first(weight + i, dim - i, vec_zero()));
        vec_store_first(out + i, dim - i, round_to(bf16, y));
    }
}

/* Pairs (i, i + pairs). No fma: every product and every sum is rounded. */
QSA_INLINE void rotate_head(float *y, uint32_t pairs, const float *cos, const float *sin, bool bf16)
{
    const vec zero = vec_zero();
    for (uint32_t i = 0; i < pairs; i += LANES) {
        const uint32_t left = pairs - i;
        const vec low = vec_load_first(y + i, left, zero), high = vec_load_first(y + pairs + i, left, zero);
        const vec c = vec_load_first(cos + i, left, zero), s = vec_load_first(sin + i, left, zero);
        const vec low_c = round_to(bf16, vec_mul(low, c)), low_s = round_to(bf16, vec_mul(low, s));
        const vec high_c = round_to(bf16, vec_mul(high, c)), high_s = round_to(bf16, vec_mul(high, s));
        vec_store_first(y + i, left, round_to(bf16, vec_sub(low_c, high_s)));
        vec_store_first(y + pairs + i, left, round_to(bf16, vec_add(high_c, low_s)));
    }
}

QSA_INLINE void norm_rotate_as(const qsa_norm_rotate_call *c, bool bf16)
{
    for (uint32_t first = 0; first < c->heads; first += CHAIN_ROWS) {
        const uint32_t count = c->heads - first < CHAIN_ROWS ? c->heads - first : CHAIN_ROWS;
        const float *x = c->x + first * c->stride;
        float scales[CHAIN_ROWS];
        norm_scales(c, x, count, scales);
        for (uint32_t h = 0; h < count; h++) {
            const size_t angles = (first + h) * c->angle_stride;
            float *y = c->out + (size_t)(first + h) * c->dim;
            scale_head(x + h * c->stride, scales[h], c->dim, c->weight, bf16, y);
            rotate_head(y, c->pairs, c->cos + angles, c->sin + angles, bf16);
        }
    }
}

static inline void norm_rotate(const qsa_norm_rotate_call *c)
{
    qsa_expect_norm_rotate(c);
    if (c->bf16)
        norm_rotate_as(c, true);
    else
        norm_rotate_as(c, false);
}

static inline size_t check(const float *x, size_t n, float limit)
{
    size_t i = 0;
    while (i + LANES <= n && vec_within(vec_load(x + i), limit))
        i += LANES;
    return i + qsa_check__scalar(x + i, n - i, limit);
}

static inline void to_bf16(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store_bf16(out + i, vec_load(x + i));
    for (; i < n; i++)
        out[i] = qsa_f32_to_bf16(x[i]);
}

#endif
