/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to vectors as they enter: norm and rotation (SPEC section 3), the check of inputs, rounding to bf16. */
#include "kernels/x86/avx2.h"

enum { LANES = 8, GROUPS = 2, HEADS = LANES * GROUPS };

/* qsa_round_bf16 of eight. */
QSA_INLINE __m256 round_bf16(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32((int)0xffff0000)));
}

QSA_INLINE __m256 round_to(bool bf16, __m256 x)
{
    return bf16 ? round_bf16(x) : x;
}

/* 1 / sqrt(mean of squares + eps) of `heads` heads, at most LANES * groups. The chains of squares run side by side, a
 * head per lane; lanes beyond repeat the last head. */
QSA_INLINE void norm_scales(const float *x, size_t stride, uint32_t heads, uint32_t groups, uint32_t dim, float eps,
                            float *scales)
{
    const float *rows[HEADS];
    for (uint32_t h = 0; h < LANES * groups; h++)
        rows[h] = x + (h < heads ? h : heads - 1) * stride;
    __m256 squares[GROUPS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    uint32_t d = 0;
    for (; d + 4 <= dim; d += 4) {
        __m256 column[GROUPS][4];
        QSA_UNROLL
        for (uint32_t g = 0; g < groups; g++)
            qsa_columns_load(rows + LANES * g, d, column[g]);
        QSA_UNROLL
        for (int k = 0; k < 4; k++)
            for (uint32_t g = 0; g < groups; g++)
                squares[g] = _mm256_fmadd_ps(column[g][k], column[g][k], squares[g]);
    }
    for (uint32_t g = 0; g < groups; g++)
        _mm256_storeu_ps(scales + LANES * g, squares[g]);
    for (; d < dim; d++)
        for (uint32_t h = 0; h < heads; h++)
            scales[h] = fmaf(rows[h][d], rows[h][d], scales[h]);
    for (uint32_t g = 0; g < groups; g++) {
        __m256 mean = _mm256_div_ps(_mm256_loadu_ps(scales + LANES * g), _mm256_set1_ps((float)dim));
        __m256 root = _mm256_sqrt_ps(_mm256_add_ps(mean, _mm256_set1_ps(eps)));
        _mm256_storeu_ps(scales + LANES * g, _mm256_div_ps(_mm256_set1_ps(1.0f), root));
    }
}

QSA_INLINE void scale_head(const float *x, float scale, uint32_t dim, const float *weight, bool bf16, float *out)
{
    const __m256 s = _mm256_set1_ps(scale);
    for (uint32_t i = 0; i < dim; i += LANES) {
        __m256 scaled = _mm256_mul_ps(qsa_load_first(x + i, dim - i), s);
        __m256 y = _mm256_mul_ps(scaled, qsa_load_first(weight + i, dim - i));
        qsa_store_first(out + i, dim - i, round_to(bf16, y));
    }
}

/* Pairs (i, i + pairs). No fma: every product and every sum is rounded. */
QSA_INLINE void rotate_head(float *y, uint32_t pairs, const float *cos, const float *sin, bool bf16)
{
    for (uint32_t i = 0; i < pairs; i += LANES) {
        uint32_t left = pairs - i;
        __m256 low = qsa_load_first(y + i, left), high = qsa_load_first(y + pairs + i, left);
        __m256 c = qsa_load_first(cos + i, left), s = qsa_load_first(sin + i, left);
        __m256 low_c = round_to(bf16, _mm256_mul_ps(low, c)), low_s = round_to(bf16, _mm256_mul_ps(low, s));
        __m256 high_c = round_to(bf16, _mm256_mul_ps(high, c)), high_s = round_to(bf16, _mm256_mul_ps(high, s));
        qsa_store_first(y + i, left, round_to(bf16, _mm256_sub_ps(low_c, high_s)));
        qsa_store_first(y + pairs + i, left, round_to(bf16, _mm256_add_ps(high_c, low_s)));
    }
}

QSA_INLINE void norm_rotate(const float *x, size_t stride, uint32_t heads, uint32_t dim, const float *weight, float eps,
                            uint32_t pairs, const float *cos, const float *sin, size_t angle_stride, bool bf16,
                            float *out)
{
    for (uint32_t first = 0; first < heads; first += HEADS) {
        uint32_t count = heads - first < HEADS ? heads - first : HEADS;
        const float *rows = x + first * stride;
        float scales[HEADS];
        if (count > LANES)
            norm_scales(rows, stride, count, 2, dim, eps, scales);
        else
            norm_scales(rows, stride, count, 1, dim, eps, scales);
        for (uint32_t h = 0; h < count; h++) {
            float *y = out + (size_t)(first + h) * dim;
            scale_head(rows + h * stride, scales[h], dim, weight, bf16, y);
            rotate_head(y, pairs, cos + (first + h) * angle_stride, sin + (first + h) * angle_stride, bf16);
        }
    }
}

void qsa_norm_rotate__avx2(const float *x, size_t stride, uint32_t heads, uint32_t dim, const float *weight, float eps,
                           uint32_t pairs, const float *cos, const float *sin, size_t angle_stride, bool bf16,
                           float *out)
{
    if (bf16)
        norm_rotate(x, stride, heads, dim, weight, eps, pairs, cos, sin, angle_stride, true, out);
    else
        norm_rotate(x, stride, heads, dim, weight, eps, pairs, cos, sin, angle_stride, false, out);
}

/* Lanes of x that are NaN, infinite or beyond the limit, as a mask of 8 bits. */
QSA_INLINE unsigned offenders(__m256 x, float limit)
{
    __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(magnitude, _mm256_set1_ps(limit), _CMP_NLE_UQ));
}

size_t qsa_check__avx2(const float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i += LANES) {
        unsigned found = offenders(qsa_load_first(x + i, n - i), limit); /* lanes beyond n are 0: never found */
        if (found)
            return i + (size_t)__builtin_ctz(found);
    }
    return n;
}

void qsa_to_bf16__avx2(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256i bits = _mm256_castps_si256(round_bf16(_mm256_loadu_ps(x + i)));
        bits = _mm256_srli_epi32(bits, 16);
        __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
        _mm_storeu_si128((__m128i *)(out + i), packed);
    }
    for (; i < n; i++)
        out[i] = qsa_f32_to_bf16(x[i]);
}
