/* SPDX-License-Identifier: Apache-2.0 */
/* sin, cos and powers with defined bits (SPEC section 6). */
#include "base/elementary.h"

/* pi/2 in three parts, so that k times each of the first two is exact for the k that occur. */
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;
static const double HALF_PI_HIGH = 0x1.921fb54p+0;
static const double HALF_PI_MIDDLE = 0x1.10b4611p-30;
static const double HALF_PI_LOW = 0x1.4c4c6628b80dcp-59;

/* (-1)^n / (2n+1)!, n = 1..7, and (-1)^n / (2n)!, n = 1..8: the factorials are exact, so each quotient is the nearest
 * binary64. */
static const double SIN_SERIES[] = {-1.0 / 6,        1.0 / 120,          -1.0 / 5040,           1.0 / 362880,
                                    -1.0 / 39916800, 1.0 / 6227020800.0, -1.0 / 1307674368000.0};
static const double COS_SERIES[] = {-1.0 / 2,       1.0 / 24,        -1.0 / 720,           1.0 / 40320,
                                    -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};

/* Horner's rule, highest power first. */
static double series(const double *coefficients, int count, double z)
{
    double sum = coefficients[count - 1];
    for (int i = count - 2; i >= 0; i--)
        sum = sum * z + coefficients[i];
    return sum;
}

void qsa_sin_cos(float angle, float *out_sin, float *out_cos)
{
    double a = angle;
    double k = rint(a * TWO_OVER_PI);
    double r = ((a - k * HALF_PI_HIGH) - k * HALF_PI_MIDDLE) - k * HALF_PI_LOW;
    double z = r * r;
    double sine = (series(SIN_SERIES, 7, z) * z) * r + r;
    double cosine = series(COS_SERIES, 8, z) * z + 1.0;

    switch ((int64_t)k & 3) { /* the quadrant, for negative k too */
    case 0:
        *out_sin = (float)sine;
        *out_cos = (float)cosine;
        break;
    case 1:
        *out_sin = (float)cosine;
        *out_cos = (float)-sine;
        break;
    case 2:
        *out_sin = (float)-sine;
        *out_cos = (float)-cosine;
        break;
    default:
        *out_sin = (float)-cosine;
        *out_cos = (float)sine;
        break;
    }
}

float qsa_power(float theta, float e)
{
    double root = theta;
    double rest = e;
    double power = 1.0;
    while (rest > 0.0) { /* one step per bit of e: root = theta^(2^-step) */
        root = sqrt(root);
        rest = 2.0 * rest;
        if (rest >= 1.0) {
            power = power * root;
            rest = rest - 1.0;
        }
    }
    return (float)power;
}
