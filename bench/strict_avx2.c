/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86/avx2.h"
#include "strict_free.h"

#include <string.h>

typedef __m256 vec;
enum { LANES = 8, TOGETHER = 6 };

QSA_INLINE vec splat(float x)
{
    return _mm256_set1_ps(x);
}

QSA_INLINE vec load(const float *x)
{
    return _mm256_loadu_ps(x);
}

QSA_INLINE void store(float *x, vec v)
{
    _mm256_storeu_ps(x, v);
}

QSA_INLINE vec multiply_add(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

QSA_INLINE vec multiply(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

QSA_INLINE vec add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

QSA_INLINE vec largest(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

QSA_INLINE vec round_nearest(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

QSA_INLINE vec power_of_two(vec n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}

QSA_INLINE vec two_blocks(const void *first, const void *second, size_t d)
{
    int64_t low, high;
    memcpy(&low, (const uint16_t *)first + d * QSA_BLOCK_TOKENS, sizeof low);
    memcpy(&high, (const uint16_t *)second + d * QSA_BLOCK_TOKENS, sizeof high);
    return qsa_pair_from_bf16(_mm256_blend_epi32(_mm256_set1_epi64x(low), _mm256_set1_epi64x(high), 0xf0)).v[0];
}

QSA_INLINE void widen_keys(const void *const *blocks, size_t d, vec out[2][2])
{
    QSA_UNROLL
    for (size_t i = 0; i < 2; i++) {
        out[i][0] = two_blocks(blocks[0], blocks[1], d + i);
        out[i][1] = two_blocks(blocks[2], blocks[3], d + i);
    }
}

QSA_INLINE void widen_values(const uint16_t *values, vec out[2])
{
    const qsa_pair pair = qsa_pair_load(values, 0, QSA_ELEMENT_BF16);
    out[0] = pair.v[0];
    out[1] = pair.v[1];
}

QSA_INLINE void natural_order(vec x[2])
{
    const qsa_pair pair = qsa_natural_order((qsa_pair){{x[0], x[1]}}, QSA_ELEMENT_BF16);
    x[0] = pair.v[0];
    x[1] = pair.v[1];
}

QSA_INLINE vec widen_groups(const uint16_t *keys)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)keys)), 16));
}

#include "strict_ways.h"

const free_ways *free_ways_avx2(void)
{
    return &WAYS;
}
