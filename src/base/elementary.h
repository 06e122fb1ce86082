/* SPDX-License-Identifier: Apache-2.0 */
/* Elementary functions and roundings whose bits are specified (SPEC section 6). They assume the float environment of
 * base/float_env.h and use only what IEEE 754 rounds correctly (fmaf, rint, sqrt), never a math library's
 * approximation. */
#ifndef QSA_BASE_ELEMENTARY_H
#define QSA_BASE_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t qsa_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float qsa_f32_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Exact: every bf16 is an f32. */
static inline float qsa_bf16_to_f32(uint16_t x)
{
    return qsa_f32_from_bits((uint32_t)x << 16);
}

/* To nearest, ties to even; subnormals and the sign of zero are kept. x is not NaN. */
static inline uint16_t qsa_f32_to_bf16(float x)
{
    uint32_t bits = qsa_f32_bits(x);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float qsa_round_bf16(float x)
{
    return qsa_bf16_to_f32(qsa_f32_to_bf16(x));
}

/* Exact. */
static inline float qsa_f16_to_f32(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, magnitude = x & 0x7fffu;
    if (magnitude < 0x400u) { /* zero and subnormals: multiples of 2^-24 */
        float value = (float)magnitude * 0x1p-24f;
        return qsa_f32_from_bits(qsa_f32_bits(value) | sign);
    }
    uint32_t exponent = magnitude >= 0x7c00u ? 0xffu << 23 : ((magnitude >> 10) + 112u) << 23;
    return qsa_f32_from_bits(sign | exponent | (magnitude & 0x3ffu) << 13);
}

/* To nearest, ties to even; subnormals and the sign of zero are kept. |x| < 65520. */
static inline uint16_t qsa_f32_to_f16(float x)
{
    uint32_t bits = qsa_f32_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x38800000u) { /* below 2^-14: 2^-24 is the unit, and adding 0.5 rounds to it */
        float shifted = qsa_f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (qsa_f32_bits(shifted) - qsa_f32_bits(0.5f)));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

/* 1.5 * 2^23: added to an f32 of magnitude below 2^22, it leaves the nearest integer in the low bits. */
#define QSA_E2_ROUNDER 12582912.0f
/* Below this E2 is +0. */
#define QSA_E2_LOWEST (-126.0f)
/* Coefficients of 2^r on [-1/2, 1/2], highest power first. */
#define QSA_E2_C6 0x1.444p-13f
#define QSA_E2_C5 0x1.5f48cp-10f
#define QSA_E2_C4 0x1.3b2a1cp-7f
#define QSA_E2_C3 0x1.c6aeccp-5f
#define QSA_E2_C2 0x1.ebfbep-3f
#define QSA_E2_C1 0x1.62e43p-1f
#define QSA_E2_C0 1.0f

/* 2^x for x <= 0, error below 1 ulp. Not monotone (by up to 1 ulp): do not rely on the order of results. */
static inline float qsa_e2(float x)
{
    if (!(x >= QSA_E2_LOWEST))
        return 0.0f;
    float shifted = x + QSA_E2_ROUNDER;
    float r = x - (shifted - QSA_E2_ROUNDER);
    float p = QSA_E2_C6;
    p = fmaf(p, r, QSA_E2_C5);
    p = fmaf(p, r, QSA_E2_C4);
    p = fmaf(p, r, QSA_E2_C3);
    p = fmaf(p, r, QSA_E2_C2);
    p = fmaf(p, r, QSA_E2_C1);
    p = fmaf(p, r, QSA_E2_C0);
    return qsa_f32_from_bits(qsa_f32_bits(p) + ((qsa_f32_bits(shifted) - qsa_f32_bits(QSA_E2_ROUNDER)) << 23));
}

/* Sine and cosine of an angle of magnitude up to 2^24, computed in binary64 and rounded once. */
void qsa_sin_cos(float angle, float *out_sin, float *out_cos);

/* theta^e for theta > 0 and 0 <= e < 1, by square roots and products in binary64, rounded once. */
float qsa_power(float theta, float e);

#endif
