/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of a selection: eight scores at a time are compared with the threshold; few pass, one by one. */
#include "kernels/x86/avx2.h"

enum { SCORES = 8, CANDIDATES = 4 };

uint32_t qsa_offer__avx2(const float *scores, uint32_t n, uint32_t first, int64_t tau, qsa_candidate *out)
{
    const __m256i limit = _mm256_set1_epi32((int32_t)tau); /* bits of scores are positive as signed integers */
    uint32_t count = 0, i = 0;
    for (; i + SCORES <= n; i += SCORES) {
        const __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(scores + i));
        unsigned above = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, limit)));
        for (; above; above &= above - 1) {
            const uint32_t at = i + (uint32_t)__builtin_ctz(above);
            out[count++] = (qsa_candidate){qsa_f32_bits(scores[at]), first + at};
        }
    }
    return count + qsa_offer__scalar(scores + i, n - i, first + i, tau, out + count);
}

/* Places of the lanes that are set in a mask of four pairs, packed to the front. */
static const uint32_t pack[16][SCORES] = {
    {0, 0, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0, 0, 0}, {2, 3, 0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 0, 0, 0, 0},
    {4, 5, 0, 0, 0, 0, 0, 0}, {0, 1, 4, 5, 0, 0, 0, 0}, {2, 3, 4, 5, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5, 0, 0},
    {6, 7, 0, 0, 0, 0, 0, 0}, {0, 1, 6, 7, 0, 0, 0, 0}, {2, 3, 6, 7, 0, 0, 0, 0}, {0, 1, 2, 3, 6, 7, 0, 0},
    {4, 5, 6, 7, 0, 0, 0, 0}, {0, 1, 4, 5, 6, 7, 0, 0}, {2, 3, 4, 5, 6, 7, 0, 0}, {0, 1, 2, 3, 4, 5, 6, 7}};

/* Only the lowest `*equal` of the lanes that are set; what is taken is no longer there to take. */
static unsigned first_equals(unsigned set, uint32_t *equal)
{
    unsigned taken = 0;
    for (; set && *equal; set &= set - 1, --*equal)
        taken |= set & -set;
    return taken;
}

/* Four candidates at a time. Their bits are the low halves of 64, and not negative as signed integers. */
uint32_t qsa_keep__avx2(qsa_candidate *candidates, uint32_t n, uint32_t threshold, uint32_t equal)
{
    const __m256i limit = _mm256_set1_epi64x((int64_t)((uint64_t)threshold << 32));
    uint32_t kept = 0, i = 0;
    for (; i + CANDIDATES <= n; i += CANDIDATES) {
        const __m256i four = _mm256_loadu_si256((const __m256i *)(const void *)(candidates + i));
        const __m256i bits = _mm256_slli_epi64(four, 32);
        unsigned keep = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(bits, limit)));
        const unsigned equals = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(bits, limit)));
        if (equals)
            keep |= first_equals(equals, &equal);
        /* what is written too many lies among the four that were read */
        const __m256i packed =
            _mm256_permutevar8x32_epi32(four, _mm256_loadu_si256((const __m256i *)(const void *)pack[keep]));
        _mm256_storeu_si256((__m256i *)(void *)(candidates + kept), packed);
        kept += (uint32_t)__builtin_popcount(keep);
    }
    const uint32_t rest = qsa_keep__scalar(candidates + i, n - i, threshold, equal);
    for (uint32_t r = 0; r < rest; r++)
        candidates[kept++] = candidates[i + r];
    return kept;
}
