/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of a selection: 16 scores at a time are compared with the threshold, and the few that pass are gathered.
 */
#include "kernels/x86/avx512.h"

enum { SCORES = 16, CANDIDATES = 8, AT_ONCE = 256 };

/* A mask of the first `count` lanes of eight. */
QSA_INLINE __mmask8 first_eight(uint32_t count)
{
    return count >= CANDIDATES ? 0xff : (__mmask8)((1u << count) - 1);
}

/* Lanes of n <= AT_ONCE scores above the limit, in order; places has room for SCORES more than there are. No branch
 * depends on a score, because which are above cannot be foreseen. */
static uint32_t find_above(const float *scores, uint32_t n, __m512i limit, uint32_t *places)
{
    const __m512i step = _mm512_set1_epi32(SCORES);
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i += SCORES) {
        const __mmask16 inside = n - i >= SCORES ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        const __m512i bits = _mm512_maskz_loadu_epi32(inside, scores + i);
        const __mmask16 above = _mm512_mask_cmpgt_epi32_mask(inside, bits, limit);
        _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi32(above, lanes));
        count += (uint32_t)__builtin_popcount(above);
        lanes = _mm512_add_epi32(lanes, step);
    }
    return count;
}

uint32_t qsa_offer__avx512(const float *scores, uint32_t n, uint32_t first, int64_t tau, qsa_candidate *out)
{
    const __m512i limit = _mm512_set1_epi32((int32_t)tau); /* bits of scores are positive as signed integers */
    uint32_t places[AT_ONCE + SCORES], count = 0;
    for (uint32_t begin = 0; begin < n; begin += AT_ONCE) {
        const float *some = scores + begin;
        const uint32_t found = find_above(some, n - begin < AT_ONCE ? n - begin : AT_ONCE, limit, places);
        for (uint32_t i = 0; i < found; i += CANDIDATES) {
            const __mmask8 inside = first_eight(found - i);
            const __m256i place = _mm256_maskz_loadu_epi32(inside, places + i);
            const __m512i bits = _mm512_cvtepu32_epi64(_mm256_i32gather_epi32((const int *)some, place, 4));
            const __m512i groups =
                _mm512_cvtepu32_epi64(_mm256_add_epi32(place, _mm256_set1_epi32((int)(first + begin))));
            _mm512_mask_storeu_epi64(out + count + i, inside, _mm512_or_si512(bits, _mm512_slli_epi64(groups, 32)));
        }
        count += found;
    }
    return count;
}

/* Only the lowest `*equal` of the lanes that are set; what is taken is no longer there to take. */
static __mmask8 first_equals(__mmask8 set, uint32_t *equal)
{
    unsigned taken = 0;
    for (unsigned left = set; left && *equal; left &= left - 1, --*equal)
        taken |= left & -left;
    return (__mmask8)taken;
}

uint32_t qsa_keep__avx512(qsa_candidate *candidates, uint32_t n, uint32_t threshold, uint32_t equal)
{
    const __m512i limit = _mm512_set1_epi64((int64_t)((uint64_t)threshold << 32));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i += CANDIDATES) {
        const __mmask8 inside = first_eight(n - i);
        const __m512i eight = _mm512_maskz_loadu_epi64(inside, candidates + i);
        const __m512i bits = _mm512_slli_epi64(eight, 32); /* the low half of a candidate */
        __mmask8 keep = _mm512_mask_cmpgt_epu64_mask(inside, bits, limit);
        const __mmask8 equals = _mm512_mask_cmpeq_epu64_mask(inside, bits, limit);
        if (equals)
            keep |= first_equals(equals, &equal);
        const uint32_t count = (uint32_t)__builtin_popcount(keep);
        _mm512_mask_storeu_epi64(candidates + kept, first_eight(count), _mm512_maskz_compress_epi64(keep, eight));
        kept += count;
    }
    return kept;
}
