/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one element, and sums over a row, for our own graph nodes.
 *
 * Plain IEEE operations in a fixed order and nothing of libm, so that compilers may vectorise the loops around them while
 * a result depends neither on the vector width nor on where in a batch an element stands. */
#ifndef QSA_ENGINE_MODEL_ELEMENTWISE_H
#define QSA_ENGINE_MODEL_ELEMENTWISE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { SUM_LANES = 16 };

/* e^x, relative error below 3e-7; x is clamped to [-87, 88], where the result is a normal number. */
static inline float exp_f32(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504f + magic;
    const float n = shifted - magic;
    /* ln 2 in two parts, the first short enough that n times it is exact; |r| <= ln 2 / 2. */
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    /* The series of e^r up to r^7 / 7!. */
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
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
    float sum[SUM_LANES];
    memcpy(sum, lanes, sizeof sum);
    for (int width = SUM_LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            sum[i] += sum[i + width];
        }
    }
    return sum[0];
}

static inline float dot_f32(const float *a, const float *b, size_t n)
{
    float lanes[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES) {
        for (size_t l = 0; l < SUM_LANES; l++) {
            lanes[l] += a[i + l] * b[i + l];
        }
    }
    for (size_t l = 0; i + l < n; l++) {
        lanes[l] += a[i + l] * b[i + l];
    }
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
