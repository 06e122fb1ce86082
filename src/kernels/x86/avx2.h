/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2: vec is 8 floats, a tile two of them. Only files that are compiled for AVX2 include this.
 *
 * The names without a prefix are the vocabulary of simd/: every instruction set defines the same. */
#ifndef QSA_KERNELS_X86_AVX2_H
#define QSA_KERNELS_X86_AVX2_H

#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = 8, VECTORS = 2, TILE = LANES * VECTORS, MOST_ROWS = 6, CHAIN_VECTORS = 2 };

#define QSA_WITH_ROWS QSA_WITH_ROWS_6

static inline uint32_t rows_next(size_t left)
{
    return (uint32_t)qsa_even_rows(left, MOST_ROWS);
}

typedef __m256 vec;

QSA_INLINE vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

QSA_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}

QSA_INLINE vec vec_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

QSA_INLINE void vec_store(float *x, vec v)
{
    _mm256_storeu_ps(x, v);
}

QSA_INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

QSA_INLINE vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

QSA_INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

QSA_INLINE vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

QSA_INLINE vec vec_sqrt(vec a)
{
    return _mm256_sqrt_ps(a);
}

QSA_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

QSA_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

QSA_INLINE float vec_largest(vec a)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* All ones in the first `count` lanes. */
QSA_INLINE __m256i first_lanes(size_t count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first `count` floats, at most LANES; the other lanes are those of `rest`, their memory is not read. */
QSA_INLINE vec vec_load_first(const float *x, size_t count, vec rest)
{
    if (count >= LANES)
        return vec_load(x);
    const __m256i first = first_lanes(count);
    return _mm256_blendv_ps(rest, _mm256_maskload_ps(x, first), _mm256_castsi256_ps(first));
}

QSA_INLINE void vec_store_first(float *x, size_t count, vec v)
{
    if (count >= LANES)
        vec_store(x, v);
    else
        _mm256_maskstore_ps(x, first_lanes(count), v);
}

/* p * 2^n, where shifted = rounder + n: adds n to the exponent. */
QSA_INLINE vec vec_times_power(vec p, vec shifted, vec rounder)
{
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(rounder));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23)));
}

/* Lanes of v whose x is at least `limit`; +0 in the others. */
QSA_INLINE vec vec_zero_below(vec v, vec x, float limit)
{
    return _mm256_and_ps(v, _mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_GE_OQ));
}

/* No lane is NaN, or beyond the limit in magnitude. */
QSA_INLINE bool vec_within(vec x, float limit)
{
    const vec magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    return _mm256_movemask_ps(_mm256_cmp_ps(magnitude, _mm256_set1_ps(limit), _CMP_NLE_UQ)) == 0;
}

/* Bits rounded to bf16 in their upper halves; what is below is left over. */
QSA_INLINE __m256i rounded_bits(vec x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}

QSA_INLINE vec vec_round_bf16(vec x)
{
    return _mm256_castsi256_ps(_mm256_and_si256(rounded_bits(x), _mm256_set1_epi32((int)0xffff0000)));
}

QSA_INLINE void vec_store_bf16(uint16_t *out, vec x)
{
    const __m256i bits = _mm256_srli_epi32(rounded_bits(x), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    _mm_storeu_si128((__m128i *)(void *)out, packed);
}

/* Transposes four floats of each of eight rows: out[k] holds rows[r][i + k] in lane r. */
QSA_INLINE void vec_columns(const float *const rows[LANES], size_t i, vec out[4])
{
    const vec a = _mm256_loadu2_m128(rows[4] + i, rows[0] + i), b = _mm256_loadu2_m128(rows[5] + i, rows[1] + i);
    const vec c = _mm256_loadu2_m128(rows[6] + i, rows[2] + i), d = _mm256_loadu2_m128(rows[7] + i, rows[3] + i);
    const vec ab_low = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
    const vec cd_low = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
    out[0] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
    out[1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
    out[2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
    out[3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
}

/* ---- tiles ---- */

/* 16 values. bf16 is widened into the lane order 0-3 8-11 | 4-7 12-15, because interleaving with zeros within 128-bit
 * halves is cheaper than widening across them: it leaves the ports of the fma alone. Sums do not mind; tile_in_order
 * undoes it. */
typedef struct tile {
    vec v[VECTORS];
} tile;

QSA_INLINE tile tile_zero(void)
{
    return (tile){{vec_zero(), vec_zero()}};
}

QSA_INLINE tile tile_from_f32(const float *x)
{
    return (tile){{vec_load(x), vec_load(x + LANES)}};
}

QSA_INLINE void tile_to_f32(float *x, tile t)
{
    vec_store(x, t.v[0]);
    vec_store(x + LANES, t.v[1]);
}

QSA_INLINE tile tile_fma(float a, tile b, tile c)
{
    const vec all = vec_set(a);
    return (tile){{vec_fma(all, b.v[0], c.v[0]), vec_fma(all, b.v[1], c.v[1])}};
}

QSA_INLINE tile tile_from_bf16(__m256i bits)
{
    const __m256i zero = _mm256_setzero_si256();
    return (tile){{_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, bits)),
                   _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, bits))}};
}

/* Eight int8 as f32, times their scales: exact. */
QSA_INLINE vec eight_quants(const void *quants, vec scales)
{
    const __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)quants));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(q), scales);
}

/* Dimensions i .. i + 16 of a V row of q8_0, i a multiple of 16. */
QSA_INLINE tile tile_from_q8_0(const void *row, size_t i)
{
    const uint8_t *chunk = (const uint8_t *)row + i / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    const uint8_t *quants = chunk + sizeof(uint16_t) + i % QSA_CHUNK_DIMS;
    const vec scale = vec_set(_cvtsh_ss(*(const uint16_t *)(const void *)chunk));
    return (tile){{eight_quants(quants, scale), eight_quants(quants + LANES, scale)}};
}

/* Dimensions i .. i + 16 of a V row. */
QSA_INLINE tile tile_load(const void *row, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return tile_from_bf16(_mm256_loadu_si256((const __m256i *)((const uint16_t *)row + i)));
    if (type == QSA_ELEMENT_F16) {
        const __m128i *h = (const __m128i *)((const uint16_t *)row + i);
        return (tile){{_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))}};
    }
    return type == QSA_ELEMENT_Q8_0 ? tile_from_q8_0(row, i) : tile_from_f32((const float *)row + i);
}

/* LANES neighbours from element i of each part on; f32 or bf16. */
QSA_INLINE tile tile_load_parts(const void *const part[VECTORS], size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return tile_from_bf16(_mm256_loadu2_m128i((const __m128i *)((const uint16_t *)part[1] + i),
                                                  (const __m128i *)((const uint16_t *)part[0] + i)));
    return (tile){{vec_load((const float *)part[0] + i), vec_load((const float *)part[1] + i)}};
}

/* From the lane order of tile_load and tile_load_parts to that of memory. */
QSA_INLINE tile tile_in_order(tile t, enum qsa_element type)
{
    if (type != QSA_ELEMENT_BF16)
        return t;
    return (tile){{_mm256_permute2f128_ps(t.v[0], t.v[1], 0x20), _mm256_permute2f128_ps(t.v[0], t.v[1], 0x31)}};
}

#endif
