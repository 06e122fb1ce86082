/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one element, and sums over a row, for our own graph nodes.
 *
 * Plain IEEE operations in a fixed order and nothing of libm, so that compilers may vectorise the loops around them
 * while a result depends neither on the vector width nor on where in a batch an element stands. */
#ifndef QSA_ENGINE_MODEL_ELEMENTWISE_H
#define QSA_ENGINE_MODEL_ELEMENTWISE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SUM_LANES = 16 };

/* ---- e^x ----
 *
 * x is clamped to where the result is a normal number. n = round(x / ln 2) by a number whose addition rounds to an
 * integer; r = x - n ln 2, with ln 2 in two parts of which the first is short enough that n times it is exact; |r| <=
 * ln 2 / 2; a polynomial of r, 1e-7 from e^r; n enters as an exponent. */
#define EXP_LEAST (-87.0f)
#define EXP_MOST 88.0f
#define EXP_LOG2E 1.44269504f
#define EXP_MAGIC 12582912.0f /* 1.5 * 2^23 */
#define EXP_LN2_HIGH 0.693359375f
#define EXP_LN2_LOW 2.12194440e-4f /* of the opposite sign */
#define EXP_C2 0.499992303f
#define EXP_C3 0.166671154f
#define EXP_C4 0.0418903318f
#define EXP_C5 0.00831250143f

/* e^x, relative error below 3e-7. */
static inline float exp_f32(float x)
{
    x = x < EXP_LEAST ? EXP_LEAST : x;
    x = x > EXP_MOST ? EXP_MOST : x;
    const float magic = EXP_MAGIC, shifted = x * EXP_LOG2E + magic, n = shifted - magic;
    const float r = (x - n * EXP_LN2_HIGH) + n * EXP_LN2_LOW;
    float p = EXP_C5;
    p = p * r + EXP_C4;
    p = p * r + EXP_C3;
    p = p * r + EXP_C2;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits, exponent, zero;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&exponent, &shifted, sizeof exponent);
    memcpy(&zero, &magic, sizeof zero);
    bits += (exponent - zero) << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

static inline float sigmoid_f32(float x)
{
    return 1.0f / (1.0f + exp_f32(-x));
}

/* Sixteen interleaved partial sums, added pairwise. */
static inline float sum_lanes(const float lanes[SUM_LANES])
{
    float eight[8], four[4];
    for (int i = 0; i < 8; i++)
        eight[i] = lanes[i] + lanes[i + 8];
    for (int i = 0; i < 4; i++)
        four[i] = eight[i] + eight[i + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline float dot_f32(const float *a, const float *b, size_t n)
{
    float lanes[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (size_t l = 0; l < SUM_LANES; l++)
            lanes[l] += a[i + l] * b[i + l];
    for (size_t l = 0; i + l < n; l++)
        lanes[l] += a[i + l] * b[i + l];
    return sum_lanes(lanes);
}

/* 1 / root mean square, with eps under the root. */
static inline float rms_factor(const float *x, size_t n, float eps)
{
    return 1.0f / sqrtf(dot_f32(x, x, n) / (float)n + eps);
}

/* Half-open share of n items that part ith of nth takes. */
typedef struct share {
    size_t begin, end;
} share;

static inline share share_of(size_t n, int ith, int nth)
{
    const size_t each = n / (size_t)nth, more = n % (size_t)nth, i = (size_t)ith;
    const size_t begin = each * i + (i < more ? i : more);
    return (share){begin, begin + each + (i < more ? 1 : 0)};
}

#endif
