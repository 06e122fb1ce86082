/* SPDX-License-Identifier: Apache-2.0 */
/* What the NEON kernels share. NEON is part of every AArch64, so their files need no flags of their own. */
#ifndef QSA_KERNELS_ARM_NEON_H
#define QSA_KERNELS_ARM_NEON_H

#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

#include <arm_neon.h>

enum { QSA_LANES = 4 };

QSA_INLINE float32x4_t qsa_four_from_bf16(const uint16_t *x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16));
}

QSA_INLINE float32x4_t qsa_four_from_f16(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

/* Four int8 as f32, times their scales: exact. */
QSA_INLINE float32x4_t qsa_four_quants(const void *quants, float32x4_t scales)
{
    uint32_t bytes;
    memcpy(&bytes, quants, sizeof bytes);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)));
    return vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), scales);
}

/* Four neighbours of an array of f32, bf16 or f16, from values[i] on. */
QSA_INLINE float32x4_t qsa_four_load(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_four_from_bf16((const uint16_t *)values + i);
    if (type == QSA_ELEMENT_F16)
        return qsa_four_from_f16((const uint16_t *)values + i);
    return vld1q_f32((const float *)values + i);
}

/* Turns four neighbours of each of four rows into four vectors, lane r from row r: out[k] holds rows[r][i + k]. So four
 * chains run side by side and none is cut. */
QSA_INLINE void qsa_columns_load(const float *const rows[QSA_LANES], size_t i, float32x4_t out[QSA_LANES])
{
    const float32x4_t a = vld1q_f32(rows[0] + i), b = vld1q_f32(rows[1] + i);
    const float32x4_t c = vld1q_f32(rows[2] + i), d = vld1q_f32(rows[3] + i);
    const float64x2_t ab_even = vreinterpretq_f64_f32(vtrn1q_f32(a, b)),
                      ab_odd = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
    const float64x2_t cd_even = vreinterpretq_f64_f32(vtrn1q_f32(c, d)),
                      cd_odd = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
    out[0] = vreinterpretq_f32_f64(vtrn1q_f64(ab_even, cd_even));
    out[1] = vreinterpretq_f32_f64(vtrn1q_f64(ab_odd, cd_odd));
    out[2] = vreinterpretq_f32_f64(vtrn2q_f64(ab_even, cd_even));
    out[3] = vreinterpretq_f32_f64(vtrn2q_f64(ab_odd, cd_odd));
}

#endif
