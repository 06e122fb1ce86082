/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of a selection: of sixteen scores at a time the largest is compared with the threshold; nearly always it
 * does not pass, and all of them are done. */
#include "kernels/arm/neon.h"

enum { SCORES = 4 * LANES };

/* The largest bits of sixteen scores, which are positive as signed integers. */
QSA_INLINE int32_t largest_bits(const float *scores)
{
    int32x4_t bits[4];
    QSA_UNROLL
    for (int i = 0; i < 4; i++)
        bits[i] = vreinterpretq_s32_f32(vec_load(scores + i * LANES));
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(bits[0], bits[1]), vmaxq_s32(bits[2], bits[3])));
}

uint32_t qsa_offer__neon(const float *scores, uint32_t n, uint32_t first, int64_t tau, qsa_candidate *out)
{
    uint32_t count = 0, i = 0;
    for (; i + SCORES <= n; i += SCORES)
        if (largest_bits(scores + i) > tau)
            count += qsa_offer__scalar(scores + i, SCORES, first + i, tau, out + count);
    return count + qsa_offer__scalar(scores + i, n - i, first + i, tau, out + count);
}
