/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of a selection: those above a threshold are appended, those below a higher one dropped. */
#include "base/elementary.h"
#include "kernels/functions.h"

uint32_t qsa_offer__scalar(const float *scores, uint32_t n, uint32_t first, int64_t tau, qsa_candidate *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((int64_t)qsa_f32_bits(scores[i]) > tau)
            out[count++] = (qsa_candidate){qsa_f32_bits(scores[i]), first + i};
    return count;
}

uint32_t qsa_keep__scalar(qsa_candidate *candidates, uint32_t n, uint32_t threshold, uint32_t equal)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const qsa_candidate candidate = candidates[i];
        if (candidate.bits > threshold)
            candidates[kept++] = candidate;
        else if (candidate.bits == threshold && equal > 0) {
            equal--;
            candidates[kept++] = candidate;
        }
    }
    return kept;
}
