/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax weights (SPEC section 6, rule 4). The maximum and E2 run along a row; the chain L cannot, so there lanes are
 * heads. */
#include "kernels/x86/avx2.h"

static float largest(const float *x, size_t n)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 m[4] = {lowest, lowest, lowest, lowest};
    size_t j = 0;
    for (; j + 32 <= n; j += 32) {
        QSA_UNROLL
        for (int v = 0; v < 4; v++)
            m[v] = _mm256_max_ps(m[v], _mm256_loadu_ps(x + j + 8 * v));
    }
    for (; j < n; j += 8) {
        __m256 inside = _mm256_castsi256_ps(qsa_first_lanes(n - j));
        m[0] = _mm256_max_ps(m[0], _mm256_blendv_ps(lowest, qsa_load_first(x + j, n - j), inside));
    }
    __m256 all = _mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3]));
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* qsa_e2 of eight. */
QSA_INLINE __m256 e2(__m256 x)
{
    const __m256 rounder = _mm256_set1_ps(QSA_E2_ROUNDER);
    __m256 shifted = _mm256_add_ps(x, rounder);
    __m256 r = _mm256_sub_ps(x, _mm256_sub_ps(shifted, rounder));
    __m256 p = _mm256_set1_ps(QSA_E2_C6);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(QSA_E2_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(QSA_E2_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(QSA_E2_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(QSA_E2_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(QSA_E2_C1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(QSA_E2_C0));
    __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(rounder));
    __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23));
    return _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_cmp_ps(x, _mm256_set1_ps(QSA_E2_LOWEST), _CMP_GE_OQ));
}

static void exponentiate(float *x, size_t n)
{
    const float maximum = largest(x, n);
    const __m256 m = _mm256_set1_ps(maximum);
    size_t j = 0;
    for (; j + 8 <= n; j += 8)
        _mm256_storeu_ps(x + j, e2(_mm256_sub_ps(_mm256_loadu_ps(x + j), m)));
    if (j < n)
        qsa_store_first(x + j, n - j, e2(_mm256_sub_ps(qsa_load_first(x + j, n - j), m)));
}

void qsa_weights__avx2(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h++)
        exponentiate(x + h * stride, n);
    qsa_add_chains(x, stride, heads, n, sum);
}
