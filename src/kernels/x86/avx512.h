/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512: vec is 16 floats, a tile two of them. Only files that are compiled for AVX-512 (F, BW, VL, DQ) include this;
 * see avx2.h for what the names mean. */
#ifndef QSA_KERNELS_X86_AVX512_H
#define QSA_KERNELS_X86_AVX512_H

#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = 16, VECTORS = 2, TILE = LANES * VECTORS, MOST_ROWS = 12, CHAIN_VECTORS = 1 };

#define QSA_WITH_ROWS QSA_WITH_ROWS_12

static inline uint32_t rows_next(size_t left)
{
    return (uint32_t)qsa_rows_of_12(left);
}

typedef __m512 vec;

QSA_INLINE vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

QSA_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}

QSA_INLINE vec vec_load(const float *x)
{
    return _mm512_loadu_ps(x);
}

QSA_INLINE void vec_store(float *x, vec v)
{
    _mm512_storeu_ps(x, v);
}

QSA_INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

QSA_INLINE vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

QSA_INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

QSA_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

QSA_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

QSA_INLINE float vec_largest(vec a)
{
    return _mm512_reduce_max_ps(a);
}

QSA_INLINE __mmask16 first_lanes(size_t count)
{
    return count >= LANES ? 0xffff : (__mmask16)((1u << count) - 1);
}

QSA_INLINE vec vec_load_first(const float *x, size_t count, vec rest)
{
    return _mm512_mask_loadu_ps(rest, first_lanes(count), x);
}

QSA_INLINE void vec_store_first(float *x, size_t count, vec v)
{
    _mm512_mask_storeu_ps(x, first_lanes(count), v);
}

QSA_INLINE vec vec_times_power(vec p, vec shifted, vec rounder)
{
    const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(rounder));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(n, 23)));
}

QSA_INLINE vec vec_zero_below(vec v, vec x, float limit)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GE_OQ), v);
}

/* Two halves of one vector. */
QSA_INLINE __m512i join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* Four floats of each of four rows that are four apart. */
QSA_INLINE vec four_rows(const float *const *rows, size_t i)
{
    const __m256 low = _mm256_loadu2_m128(rows[4] + i, rows[0] + i);
    const __m256 high = _mm256_loadu2_m128(rows[12] + i, rows[8] + i);
    return _mm512_castsi512_ps(join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
}

QSA_INLINE void vec_columns(const float *const rows[LANES], size_t i, vec out[4])
{
    const vec a = four_rows(rows, i), b = four_rows(rows + 1, i);
    const vec c = four_rows(rows + 2, i), d = four_rows(rows + 3, i);
    const vec ab_low = _mm512_unpacklo_ps(a, b), ab_high = _mm512_unpackhi_ps(a, b);
    const vec cd_low = _mm512_unpacklo_ps(c, d), cd_high = _mm512_unpackhi_ps(c, d);
    out[0] = _mm512_shuffle_ps(ab_low, cd_low, 0x44);
    out[1] = _mm512_shuffle_ps(ab_low, cd_low, 0xee);
    out[2] = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
    out[3] = _mm512_shuffle_ps(ab_high, cd_high, 0xee);
}

/* ---- tiles ---- */

/* 32 values; from bf16 in the lane order 0-3 8-11 16-19 24-27 | 4-7 12-15 20-23 28-31. */
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

QSA_INLINE tile tile_from_bf16(__m512i bits)
{
    const __m512i zero = _mm512_setzero_si512();
    return (tile){{_mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, bits)),
                   _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, bits))}};
}

/* Sixteen int8 as f32, times their scales: exact. */
QSA_INLINE vec sixteen_quants(__m128i quants, vec scales)
{
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(quants)), scales);
}

/* Dimensions i .. i + 32 of a V row; i is a multiple of 32 in q8_0. */
QSA_INLINE tile tile_load(const void *row, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16) {
        __m512i bits = _mm512_loadu_si512((const uint16_t *)row + i);
        __asm__("" : "+v"(bits)); /* in a register: gcc would load it once for each half */
        return tile_from_bf16(bits);
    }
    if (type == QSA_ELEMENT_F16) {
        const __m256i *h = (const __m256i *)((const uint16_t *)row + i);
        return (tile){{_mm512_cvtph_ps(_mm256_loadu_si256(h)), _mm512_cvtph_ps(_mm256_loadu_si256(h + 1))}};
    }
    if (type == QSA_ELEMENT_Q8_0) {
        const uint8_t *chunk = (const uint8_t *)row + i / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
        const __m128i *quants = (const __m128i *)(const void *)(chunk + sizeof(uint16_t));
        const vec scale = vec_set(_cvtsh_ss(*(const uint16_t *)(const void *)chunk));
        return (tile){
            {sixteen_quants(_mm_loadu_si128(quants), scale), sixteen_quants(_mm_loadu_si128(quants + 1), scale)}};
    }
    return tile_from_f32((const float *)row + i);
}

QSA_INLINE tile tile_load_parts(const void *const part[VECTORS], size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return tile_from_bf16(join(_mm256_loadu_si256((const __m256i *)((const uint16_t *)part[0] + i)),
                                   _mm256_loadu_si256((const __m256i *)((const uint16_t *)part[1] + i))));
    return (tile){{vec_load((const float *)part[0] + i), vec_load((const float *)part[1] + i)}};
}

QSA_INLINE tile tile_in_order(tile t, enum qsa_element type)
{
    if (type != QSA_ELEMENT_BF16)
        return t;
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    return (tile){{_mm512_permutex2var_ps(t.v[0], low, t.v[1]), _mm512_permutex2var_ps(t.v[0], high, t.v[1])}};
}

#endif
