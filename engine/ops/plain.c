/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no instruction set of its own. */
#include "ops/tables.h"

void ops_conv_tail(const ops_conv *op, ops_range channels, float *out_tail)
{
    const size_t tail_rows = (op->taps - 1) * op->dilation;
    for (size_t row = 0; row < tail_rows; row++)
        memcpy(out_tail + row * op->channels + channels.begin, ops_conv_row(op, op->tokens + row) + channels.begin,
               (channels.end - channels.begin) * sizeof *out_tail);
}

double ops_exp64(double x)
{
    /* ln 2 = HIGH + LOW; n * HIGH is exact. */
    static const double LEAST = -708.0, LOG2E = 0x1.71547652b82fep+0, ROUNDER = 0x1.8p+52;
    static const double LN2_HIGH = 0x1.62e42ffp-1, LN2_LOW = -0x1.718432a1b0e26p-35;
    static const double inverse_factorials[] = {1.0 / 6227020800,
                                                1.0 / 479001600,
                                                1.0 / 39916800,
                                                1.0 / 3628800,
                                                1.0 / 362880,
                                                1.0 / 40320,
                                                1.0 / 5040,
                                                1.0 / 720,
                                                1.0 / 120,
                                                1.0 / 24,
                                                1.0 / 6,
                                                1.0 / 2,
                                                1.0,
                                                1.0}; /* of 13 down to 0 */
    if (x < LEAST)
        return 0.0;
    const double shifted = x * LOG2E + ROUNDER, n = shifted - ROUNDER;
    const double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    double p = inverse_factorials[0];
    for (size_t i = 1; i < sizeof inverse_factorials / sizeof inverse_factorials[0]; i++)
        p = p * r + inverse_factorials[i];
    uint64_t bits, exponent;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&exponent, &shifted, sizeof exponent);
    bits += exponent << 52;
    memcpy(&p, &bits, sizeof p);
    return p;
}
