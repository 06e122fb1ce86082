/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax weights (SPEC section 6, rule 4). The maximum and E2 run along a row, a vector of 16 at a time; the chains L
 * have heads as lanes. (Taking the chains up block by block, while the next block's E2 is done, was slower.) */
#include "kernels/x86/avx512.h"

enum { LANES = 16 };

QSA_INLINE __mmask16 first_lanes(size_t count)
{
    return count >= LANES ? 0xffff : (__mmask16)((1u << count) - 1);
}

static float largest(const float *x, size_t n)
{
    const __m512 lowest = _mm512_set1_ps(-INFINITY);
    __m512 m[4] = {lowest, lowest, lowest, lowest};
    size_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        QSA_UNROLL
        for (int v = 0; v < 4; v++)
            m[v] = _mm512_max_ps(m[v], _mm512_loadu_ps(x + j + LANES * (size_t)v));
    }
    for (; j < n; j += LANES)
        m[0] = _mm512_max_ps(m[0], _mm512_mask_loadu_ps(lowest, first_lanes(n - j), x + j));
    return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3])));
}

/* qsa_e2 of sixteen. */
QSA_INLINE __m512 e2(__m512 x)
{
    const __m512 rounder = _mm512_set1_ps(QSA_E2_ROUNDER);
    __m512 shifted = _mm512_add_ps(x, rounder);
    __m512 r = _mm512_sub_ps(x, _mm512_sub_ps(shifted, rounder));
    __m512 p = _mm512_set1_ps(QSA_E2_C6);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(QSA_E2_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(QSA_E2_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(QSA_E2_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(QSA_E2_C2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(QSA_E2_C1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(QSA_E2_C0));
    __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(rounder));
    __m512i bits = _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(n, 23));
    const __mmask16 large = _mm512_cmp_ps_mask(x, _mm512_set1_ps(QSA_E2_LOWEST), _CMP_GE_OQ);
    return _mm512_castsi512_ps(_mm512_maskz_mov_epi32(large, bits));
}

static void exponentiate(float *x, size_t n)
{
    const __m512 m = _mm512_set1_ps(largest(x, n));
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        _mm512_storeu_ps(x + j, e2(_mm512_sub_ps(_mm512_loadu_ps(x + j), m)));
    if (j < n) {
        const __mmask16 rest = first_lanes(n - j);
        _mm512_mask_storeu_ps(x + j, rest, e2(_mm512_sub_ps(_mm512_maskz_loadu_ps(rest, x + j), m)));
    }
}

void qsa_weights__avx512(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h++)
        exponentiate(x + h * stride, n);
    qsa_add_chains(x, stride, heads, n, sum);
}
