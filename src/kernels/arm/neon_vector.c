/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to vectors as they enter: norm and rotation (SPEC section 3), the check of inputs, rounding to bf16. */
#include "kernels/arm/neon.h"

enum { GROUPS = 2, HEADS = QSA_LANES * GROUPS };

/* The bits of four, rounded to bf16 in their upper halves; what is below is left over. */
QSA_INLINE uint32x4_t rounded_bits(float32x4_t x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
}

/* The profile's rounding of results that are already f32. */
QSA_INLINE float32x4_t round_four(bool bf16, float32x4_t x)
{
    return bf16 ? vreinterpretq_f32_u32(vandq_u32(rounded_bits(x), vdupq_n_u32(0xffff0000u))) : x;
}

QSA_INLINE float round_one(bool bf16, float x)
{
    return bf16 ? qsa_round_bf16(x) : x;
}

/* 1 / sqrt(mean of squares + eps) of `heads` heads, at most HEADS. The chains of squares run side by side, a head per
 * lane; lanes beyond repeat the last head. */
static void norm_scales(const float *x, size_t stride, uint32_t heads, uint32_t dim, float eps, float *scales)
{
    const float *rows[HEADS];
    for (uint32_t h = 0; h < HEADS; h++)
        rows[h] = x + (h < heads ? h : heads - 1) * stride;
    float32x4_t squares[GROUPS] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    uint32_t d = 0;
    for (; d + QSA_LANES <= dim; d += QSA_LANES) {
        QSA_UNROLL
        for (int g = 0; g < GROUPS; g++) {
            float32x4_t column[QSA_LANES];
            qsa_columns_load(rows + QSA_LANES * g, d, column);
            QSA_UNROLL
            for (int k = 0; k < QSA_LANES; k++)
                squares[g] = vfmaq_f32(squares[g], column[k], column[k]);
        }
    }
    for (int g = 0; g < GROUPS; g++)
        vst1q_f32(scales + QSA_LANES * g, squares[g]);
    for (; d < dim; d++)
        for (uint32_t h = 0; h < heads; h++)
            scales[h] = fmaf(rows[h][d], rows[h][d], scales[h]);
    for (uint32_t h = 0; h < heads; h++)
        scales[h] = 1.0f / sqrtf(scales[h] / (float)dim + eps);
}

QSA_INLINE void scale_head(const float *x, float scale, uint32_t dim, const float *weight, bool bf16, float *out)
{
    uint32_t i = 0;
    for (; i + QSA_LANES <= dim; i += QSA_LANES) {
        const float32x4_t scaled = vmulq_n_f32(vld1q_f32(x + i), scale);
        vst1q_f32(out + i, round_four(bf16, vmulq_f32(scaled, vld1q_f32(weight + i))));
    }
    for (; i < dim; i++)
        out[i] = round_one(bf16, (x[i] * scale) * weight[i]);
}

/* Pairs (i, i + pairs). No fma: every product and every sum is rounded. */
QSA_INLINE void rotate_head(float *y, uint32_t pairs, const float *cos, const float *sin, bool bf16)
{
    uint32_t i = 0;
    for (; i + QSA_LANES <= pairs; i += QSA_LANES) {
        const float32x4_t low = vld1q_f32(y + i), high = vld1q_f32(y + pairs + i);
        const float32x4_t c = vld1q_f32(cos + i), s = vld1q_f32(sin + i);
        const float32x4_t low_c = round_four(bf16, vmulq_f32(low, c)), low_s = round_four(bf16, vmulq_f32(low, s));
        const float32x4_t high_c = round_four(bf16, vmulq_f32(high, c)), high_s = round_four(bf16, vmulq_f32(high, s));
        vst1q_f32(y + i, round_four(bf16, vsubq_f32(low_c, high_s)));
        vst1q_f32(y + pairs + i, round_four(bf16, vaddq_f32(high_c, low_s)));
    }
    for (; i < pairs; i++) {
        const float low = y[i], high = y[pairs + i];
        y[i] = round_one(bf16, round_one(bf16, low * cos[i]) - round_one(bf16, high * sin[i]));
        y[pairs + i] = round_one(bf16, round_one(bf16, high * cos[i]) + round_one(bf16, low * sin[i]));
    }
}

QSA_INLINE void norm_rotate(const float *x, size_t stride, uint32_t heads, uint32_t dim, const float *weight, float eps,
                            uint32_t pairs, const float *cos, const float *sin, size_t angle_stride, bool bf16,
                            float *out)
{
    for (uint32_t first = 0; first < heads; first += HEADS) {
        const uint32_t count = heads - first < HEADS ? heads - first : HEADS;
        const float *rows = x + first * stride;
        float scales[HEADS];
        norm_scales(rows, stride, count, dim, eps, scales);
        for (uint32_t h = 0; h < count; h++) {
            float *y = out + (size_t)(first + h) * dim;
            scale_head(rows + h * stride, scales[h], dim, weight, bf16, y);
            rotate_head(y, pairs, cos + (first + h) * angle_stride, sin + (first + h) * angle_stride, bf16);
        }
    }
}

void qsa_norm_rotate__neon(const float *x, size_t stride, uint32_t heads, uint32_t dim, const float *weight, float eps,
                           uint32_t pairs, const float *cos, const float *sin, size_t angle_stride, bool bf16,
                           float *out)
{
    if (bf16)
        norm_rotate(x, stride, heads, dim, weight, eps, pairs, cos, sin, angle_stride, true, out);
    else
        norm_rotate(x, stride, heads, dim, weight, eps, pairs, cos, sin, angle_stride, false, out);
}

size_t qsa_check__neon(const float *x, size_t n, float limit)
{
    size_t i = 0;
    for (; i + QSA_LANES <= n; i += QSA_LANES)
        if (vminvq_u32(vcaleq_f32(vld1q_f32(x + i), vdupq_n_f32(limit))) ==
            0) /* some lane is not within: false for NaN */
            break;
    return i + qsa_check__scalar(x + i, n - i, limit);
}

void qsa_to_bf16__neon(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + QSA_LANES <= n; i += QSA_LANES)
        vst1_u16(out + i, vshrn_n_u32(rounded_bits(vld1q_f32(x + i)), 16));
    for (; i < n; i++)
        out[i] = qsa_f32_to_bf16(x[i]);
}
