/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions of one number, to the last bit (SPEC section 9). Error bounds are measured by
 * tests/ops/test_elementary.c. They assume the float environment of base/float_env.h. NaN gives NaN. */
#ifndef QSA_OPS_ELEMENTARY_H
#define QSA_OPS_ELEMENTARY_H

#include "base/elementary.h"

/* log2(e) = HIGH + LOW. */
#define OPS_LOG2E_HIGH 0x1.715476p+0f
#define OPS_LOG2E_LOW 0x1.4ae0cp-26f
/* Below the first e^x would be subnormal and is +0; above the second it is infinite. */
#define OPS_EXP_LEAST -0x1.5d589ep+6f
#define OPS_EXP_MOST 0x1.62e42ep+6f

/* e^x = 2^n 2^r: n the integer nearest to x log2(e), r the rest, 2^r the polynomial of qsa_e2. */
static inline float ops_exp(float x)
{
    if (x < OPS_EXP_LEAST)
        return 0.0f;
    if (!(x <= OPS_EXP_MOST))
        return x + INFINITY;
    const float shifted = fmaf(x, OPS_LOG2E_HIGH, QSA_E2_ROUNDER), n = shifted - QSA_E2_ROUNDER;
    const float r = fmaf(x, OPS_LOG2E_LOW, fmaf(x, OPS_LOG2E_HIGH, -n));
    float p = QSA_E2_C6;
    p = fmaf(p, r, QSA_E2_C5);
    p = fmaf(p, r, QSA_E2_C4);
    p = fmaf(p, r, QSA_E2_C3);
    p = fmaf(p, r, QSA_E2_C2);
    p = fmaf(p, r, QSA_E2_C1);
    p = fmaf(p, r, QSA_E2_C0);
    return qsa_f32_from_bits(qsa_f32_bits(p) + (qsa_f32_bits(shifted) << 23));
}

/* 1 + e^-x: what sigmoid and silu divide by. */
static inline float ops_one_plus_exp(float x)
{
    return 1.0f + ops_exp(-x);
}

static inline float ops_sigmoid(float x)
{
    return 1.0f / ops_one_plus_exp(x);
}

static inline float ops_silu(float x)
{
    return x / ops_one_plus_exp(x);
}

/* Coefficients of (2 atanh(s) / s - 2) / s^2 in powers of s^2, highest first; s at most 1/3. */
#define OPS_LOG_C4 0x1.dba26p-3f
#define OPS_LOG_C3 0x1.bc8cf8p-3f
#define OPS_LOG_C2 0x1.24c926p-2f
#define OPS_LOG_C1 0x1.9998d4p-2f
#define OPS_LOG_C0 0x1.555556p-1f

/* ln(1 + u) = 2 atanh(u / (2 + u)), 0 <= u <= 1. */
static inline float ops_log1p(float u)
{
    const float s = u / (2.0f + u), z = s * s;
    float p = OPS_LOG_C4;
    p = fmaf(p, z, OPS_LOG_C3);
    p = fmaf(p, z, OPS_LOG_C2);
    p = fmaf(p, z, OPS_LOG_C1);
    p = fmaf(p, z, OPS_LOG_C0);
    return fmaf(s, p * z, 2.0f * s);
}

/* ln(1 + e^x). */
static inline float ops_softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + ops_log1p(ops_exp(-fabsf(x)));
}

/* ---- sums of sixteen lanes ---- */

enum { OPS_LANES = 16 };

/* Halves added until one is left. */
static inline float ops_sum_lanes(const float lanes[OPS_LANES])
{
    float eight[8], four[4];
    for (int i = 0; i < 8; i++)
        eight[i] = lanes[i] + lanes[i + 8];
    for (int i = 0; i < 4; i++)
        four[i] = eight[i] + eight[i + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

#endif
