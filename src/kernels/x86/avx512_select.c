/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of a selection: 16 scores at a time are compared, and the few that pass are packed together. */
#include "kernels/x86/avx512.h"

enum { SCORES = 16, CANDIDATES = 8 };

/* A mask of the first `count` lanes of eight. */
QSA_INLINE __mmask8 first_eight(uint32_t count)
{
    return count >= CANDIDATES ? 0xff : (__mmask8)((1u << count) - 1);
}

/* Packs the lanes that are set and writes them as candidates. */
QSA_INLINE uint32_t write_candidates(__mmask16 set, __m512i bits, __m512i groups, qsa_candidate *out)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const uint32_t count = (uint32_t)__builtin_popcount(set);
    bits = _mm512_maskz_compress_epi32(set, bits);
    groups = _mm512_maskz_compress_epi32(set, groups);
    _mm512_mask_storeu_epi64(out, first_eight(count), _mm512_permutex2var_epi32(bits, low, groups));
    if (count > CANDIDATES)
        _mm512_mask_storeu_epi64(out + CANDIDATES, first_eight(count - CANDIDATES),
                                 _mm512_permutex2var_epi32(bits, high, groups));
    return count;
}

uint32_t qsa_offer__avx512(const float *scores, uint32_t n, uint32_t first, int64_t tau, qsa_candidate *out)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i limit = _mm512_set1_epi32((int32_t)tau); /* bits of scores are positive as signed integers */
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i += SCORES) {
        const __mmask16 inside = n - i >= SCORES ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        const __m512i bits = _mm512_maskz_loadu_epi32(inside, scores + i);
        const __mmask16 above = _mm512_mask_cmpgt_epi32_mask(inside, bits, limit);
        if (above)
            count += write_candidates(above, bits, _mm512_add_epi32(_mm512_set1_epi32((int32_t)(first + i)), lanes),
                                      out + count);
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
