/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/x86/avx512.h"
#include "strict_free.h"

typedef __m512 vec;
enum { LANES = 16, TOGETHER = 12 };

QSA_INLINE vec splat(float x)
{
    return _mm512_set1_ps(x);
}

QSA_INLINE vec load(const float *x)
{
    return _mm512_loadu_ps(x);
}

QSA_INLINE void store(float *x, vec v)
{
    _mm512_storeu_ps(x, v);
}

QSA_INLINE vec multiply_add(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

QSA_INLINE vec multiply(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

QSA_INLINE vec add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

QSA_INLINE vec largest(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

QSA_INLINE vec round_nearest(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

QSA_INLINE vec power_of_two(vec n)
{
    return _mm512_scalef_ps(_mm512_set1_ps(1.0f), n);
}

/* Dimensions d and d + 1 of four blocks. */
QSA_INLINE qsa_wide_pair four_blocks(const void *const *blocks, size_t d)
{
    const __m128i *at[4];
    QSA_UNROLL
    for (int i = 0; i < 4; i++)
        at[i] = (const __m128i *)(const void *)((const uint16_t *)blocks[i] + d * QSA_BLOCK_TOKENS);
    return qsa_wide_from_bf16(qsa_join(_mm256_loadu2_m128i(at[1], at[0]), _mm256_loadu2_m128i(at[3], at[2])));
}

QSA_INLINE void widen_keys(const void *const *blocks, size_t d, vec out[2][2])
{
    const qsa_wide_pair low = four_blocks(blocks, d), high = four_blocks(blocks + 4, d);
    QSA_UNROLL
    for (int i = 0; i < 2; i++) {
        out[i][0] = low.v[i];
        out[i][1] = high.v[i];
    }
}

QSA_INLINE void widen_values(const uint16_t *values, vec out[2])
{
    const qsa_wide_pair pair = qsa_wide_load(values, 0, QSA_ELEMENT_BF16);
    out[0] = pair.v[0];
    out[1] = pair.v[1];
}

QSA_INLINE void natural_order(vec x[2])
{
    const qsa_wide_pair pair = qsa_wide_natural_order((qsa_wide_pair){{x[0], x[1]}}, QSA_ELEMENT_BF16);
    x[0] = pair.v[0];
    x[1] = pair.v[1];
}

QSA_INLINE vec widen_groups(const uint16_t *keys)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)keys)), 16));
}

#include "strict_ways.h"

const free_ways *free_ways_avx512(void)
{
    return &WAYS;
}
