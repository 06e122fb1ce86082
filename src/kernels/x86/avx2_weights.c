/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax weights (SPEC section 6, rule 4). The maximum and E2 run along a row; the chain L cannot, so there lanes are
 * heads: two vectors of eight run at once, because one alone would wait for its additions. */
#include "kernels/x86/avx2.h"

enum { LANES = 8, GROUPS = 2, HEADS = LANES * GROUPS };

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
    for (size_t j = 0; j < n; j += 8) {
        __m256 v = qsa_load_first(x + j, n - j);
        qsa_store_first(x + j, n - j, e2(_mm256_sub_ps(v, m)));
    }
}

/* The chains L of `heads` heads, at most LANES * groups; lanes beyond them repeat the last head. */
QSA_INLINE void add_chains(const float *p, size_t stride, uint32_t heads, uint32_t groups, size_t n, float *sum)
{
    const float *rows[HEADS];
    for (uint32_t h = 0; h < LANES * groups; h++)
        rows[h] = p + (h < heads ? h : heads - 1) * stride;
    __m256 total[GROUPS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t j = 0;
    for (; j + 4 <= n; j += 4) {
        __m256 column[GROUPS][4];
        QSA_UNROLL
        for (uint32_t g = 0; g < groups; g++)
            qsa_columns_load(rows + LANES * g, j, column[g]);
        QSA_UNROLL
        for (int k = 0; k < 4; k++)
            for (uint32_t g = 0; g < groups; g++)
                total[g] = _mm256_add_ps(total[g], column[g][k]);
    }
    float totals[HEADS];
    for (uint32_t g = 0; g < groups; g++)
        _mm256_storeu_ps(totals + LANES * g, total[g]);
    for (uint32_t h = 0; h < heads; h++) {
        for (size_t rest = j; rest < n; rest++)
            totals[h] = totals[h] + rows[h][rest];
        sum[h] = totals[h];
    }
}

void qsa_weights__avx2(float *x, size_t stride, uint32_t heads, uint32_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h++)
        exponentiate(x + h * stride, n);
    for (uint32_t h = 0; h < heads; h += HEADS) {
        uint32_t count = heads - h < HEADS ? heads - h : HEADS;
        if (count > LANES)
            add_chains(x + h * stride, stride, count, 2, n, sum + h);
        else
            add_chains(x + h * stride, stride, count, 1, n, sum + h);
    }
}
