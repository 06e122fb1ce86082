/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax weights (SPEC section 6, rule 4). The maximum and E2 run along a row; the chain L cannot, so there lanes are
 * heads: up to four vectors of four run at once, because one alone would wait for its additions. */
#include "kernels/arm/neon.h"

enum { GROUPS = 4, HEADS = QSA_LANES * GROUPS, STRIDE = 4 * QSA_LANES };

static float largest(const float *x, size_t n)
{
    const float32x4_t lowest = vdupq_n_f32(-INFINITY);
    float32x4_t m[4] = {lowest, lowest, lowest, lowest};
    size_t j = 0;
    for (; j + STRIDE <= n; j += STRIDE) {
        QSA_UNROLL
        for (int i = 0; i < 4; i++)
            m[i] = vmaxq_f32(m[i], vld1q_f32(x + j + i * QSA_LANES));
    }
    float maximum = vmaxvq_f32(vmaxq_f32(vmaxq_f32(m[0], m[1]), vmaxq_f32(m[2], m[3])));
    for (; j < n; j++)
        maximum = x[j] > maximum ? x[j] : maximum;
    return maximum;
}

/* qsa_e2 of four. */
QSA_INLINE float32x4_t e2(float32x4_t x)
{
    const float32x4_t rounder = vdupq_n_f32(QSA_E2_ROUNDER);
    const float32x4_t shifted = vaddq_f32(x, rounder);
    const float32x4_t r = vsubq_f32(x, vsubq_f32(shifted, rounder));
    float32x4_t p = vdupq_n_f32(QSA_E2_C6);
    p = vfmaq_f32(vdupq_n_f32(QSA_E2_C5), p, r);
    p = vfmaq_f32(vdupq_n_f32(QSA_E2_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(QSA_E2_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(QSA_E2_C2), p, r);
    p = vfmaq_f32(vdupq_n_f32(QSA_E2_C1), p, r);
    p = vfmaq_f32(vdupq_n_f32(QSA_E2_C0), p, r);
    const uint32x4_t n = vsubq_u32(vreinterpretq_u32_f32(shifted), vreinterpretq_u32_f32(rounder));
    const uint32x4_t bits = vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(n, 23));
    return vreinterpretq_f32_u32(vandq_u32(bits, vcgeq_f32(x, vdupq_n_f32(QSA_E2_LOWEST))));
}

static void exponentiate(float *x, size_t n)
{
    const float maximum = largest(x, n);
    size_t j = 0;
    for (; j + QSA_LANES <= n; j += QSA_LANES)
        vst1q_f32(x + j, e2(vsubq_f32(vld1q_f32(x + j), vdupq_n_f32(maximum))));
    for (; j < n; j++)
        x[j] = qsa_e2(x[j] - maximum);
}

/* The chains L of `heads` heads, at most QSA_LANES * groups; lanes beyond them repeat the last head. */
QSA_INLINE void add_chains(const float *p, size_t stride, uint32_t heads, uint32_t groups, size_t n, float *sum)
{
    const float *rows[HEADS];
    for (uint32_t h = 0; h < QSA_LANES * groups; h++)
        rows[h] = p + (h < heads ? h : heads - 1) * stride;
    float32x4_t total[GROUPS];
    QSA_UNROLL
    for (uint32_t g = 0; g < groups; g++)
        total[g] = vdupq_n_f32(0.0f);
    size_t j = 0;
    for (; j + QSA_LANES <= n; j += QSA_LANES) {
        QSA_UNROLL
        for (uint32_t g = 0; g < groups; g++) {
            float32x4_t column[QSA_LANES];
            qsa_columns_load(rows + QSA_LANES * g, j, column);
            QSA_UNROLL
            for (int k = 0; k < QSA_LANES; k++)
                total[g] = vaddq_f32(total[g], column[k]);
        }
    }
    float totals[HEADS];
    QSA_UNROLL
    for (uint32_t g = 0; g < groups; g++)
        vst1q_f32(totals + QSA_LANES * g, total[g]);
    for (uint32_t h = 0; h < heads; h++) {
        for (size_t rest = j; rest < n; rest++)
            totals[h] = totals[h] + rows[h][rest];
        sum[h] = totals[h];
    }
}

void qsa_weights__neon(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h++)
        exponentiate(x + h * stride, n);
    for (uint32_t h = 0; h < heads; h += HEADS) {
        const uint32_t count = heads - h < HEADS ? heads - h : HEADS;
        const float *rows = x + h * stride;
        if (count > 2 * QSA_LANES)
            add_chains(rows, stride, count, GROUPS, n, sum + h);
        else if (count > QSA_LANES)
            add_chains(rows, stride, count, 2, n, sum + h);
        else
            add_chains(rows, stride, count, 1, n, sum + h);
    }
}
