/* SPDX-License-Identifier: Apache-2.0 */
/* NEON: vec is 4 floats, a tile four of them; see x86/avx2.h for what the names mean. NEON is part of every AArch64, so
 * its files need no flags of their own. */
#ifndef QSA_KERNELS_ARM_NEON_H
#define QSA_KERNELS_ARM_NEON_H

#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

#include <arm_neon.h>
#include <string.h>

/* Six rows of four vectors are 24 accumulators: with four vectors of keys and one of q, 29 of 32 registers. */
enum { LANES = 4, VECTORS = 4, TILE = LANES * VECTORS, MOST_ROWS = 6, CHAIN_VECTORS = 4 };

#define QSA_WITH_ROWS QSA_WITH_ROWS_6

static inline uint32_t rows_next(size_t left)
{
    return (uint32_t)qsa_even_rows(left, MOST_ROWS);
}

typedef float32x4_t vec;

QSA_INLINE vec vec_zero(void)
{
    return vdupq_n_f32(0.0f);
}

QSA_INLINE vec vec_set(float x)
{
    return vdupq_n_f32(x);
}

QSA_INLINE vec vec_load(const float *x)
{
    return vld1q_f32(x);
}

QSA_INLINE void vec_store(float *x, vec v)
{
    vst1q_f32(x, v);
}

QSA_INLINE vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

QSA_INLINE vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

QSA_INLINE vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

QSA_INLINE vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

QSA_INLINE vec vec_sqrt(vec a)
{
    return vsqrtq_f32(a);
}

QSA_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

QSA_INLINE vec vec_max(vec a, vec b)
{
    return vmaxq_f32(a, b);
}

QSA_INLINE float vec_largest(vec a)
{
    return vmaxvq_f32(a);
}

QSA_INLINE vec vec_load_first(const float *x, size_t count, vec rest)
{
    if (count >= LANES)
        return vec_load(x);
    float lanes[LANES];
    vec_store(lanes, rest);
    memcpy(lanes, x, count * sizeof *x);
    return vec_load(lanes);
}

QSA_INLINE void vec_store_first(float *x, size_t count, vec v)
{
    float lanes[LANES];
    vec_store(count >= LANES ? x : lanes, v);
    if (count < LANES)
        memcpy(x, lanes, count * sizeof *x);
}

QSA_INLINE vec vec_times_power(vec p, vec shifted, vec rounder)
{
    const uint32x4_t n = vsubq_u32(vreinterpretq_u32_f32(shifted), vreinterpretq_u32_f32(rounder));
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(n, 23)));
}

QSA_INLINE vec vec_zero_below(vec v, vec x, float limit)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vcgeq_f32(x, vdupq_n_f32(limit))));
}

QSA_INLINE bool vec_within(vec x, float limit)
{
    return vminvq_u32(vcaleq_f32(x, vdupq_n_f32(limit))) != 0; /* a comparison with NaN is false */
}

/* Bits rounded to bf16 in their upper halves; what is below is left over. */
QSA_INLINE uint32x4_t rounded_bits(vec x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
}

QSA_INLINE vec vec_round_bf16(vec x)
{
    return vreinterpretq_f32_u32(vandq_u32(rounded_bits(x), vdupq_n_u32(0xffff0000u)));
}

QSA_INLINE void vec_store_bf16(uint16_t *out, vec x)
{
    vst1_u16(out, vshrn_n_u32(rounded_bits(x), 16));
}

QSA_INLINE void vec_columns(const float *const rows[LANES], size_t i, vec out[4])
{
    const vec a = vec_load(rows[0] + i), b = vec_load(rows[1] + i);
    const vec c = vec_load(rows[2] + i), d = vec_load(rows[3] + i);
    const float64x2_t ab_even = vreinterpretq_f64_f32(vtrn1q_f32(a, b)),
                      ab_odd = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
    const float64x2_t cd_even = vreinterpretq_f64_f32(vtrn1q_f32(c, d)),
                      cd_odd = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
    out[0] = vreinterpretq_f32_f64(vtrn1q_f64(ab_even, cd_even));
    out[1] = vreinterpretq_f32_f64(vtrn1q_f64(ab_odd, cd_odd));
    out[2] = vreinterpretq_f32_f64(vtrn2q_f64(ab_even, cd_even));
    out[3] = vreinterpretq_f32_f64(vtrn2q_f64(ab_odd, cd_odd));
}

QSA_INLINE vec four_from_f16(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

/* Four int8 as f32, times their scales: exact. */
QSA_INLINE vec four_quants(const void *quants, vec scales)
{
    uint32_t bytes;
    memcpy(&bytes, quants, sizeof bytes);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)));
    return vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), scales);
}

/* Four neighbours of an array of f32, bf16 or f16, from values[i] on. */
QSA_INLINE vec four_load(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)values + i), 16));
    if (type == QSA_ELEMENT_F16)
        return four_from_f16((const uint16_t *)values + i);
    return vec_load((const float *)values + i);
}

/* ---- tiles: 16 values, always in the order of memory ---- */

typedef struct tile {
    vec v[VECTORS];
} tile;

QSA_INLINE tile tile_zero(void)
{
    return (tile){{vec_zero(), vec_zero(), vec_zero(), vec_zero()}};
}

QSA_INLINE tile tile_from_f32(const float *x)
{
    return (tile){{vec_load(x), vec_load(x + LANES), vec_load(x + 2 * LANES), vec_load(x + 3 * LANES)}};
}

QSA_INLINE void tile_to_f32(float *x, tile t)
{
    QSA_UNROLL
    for (int i = 0; i < VECTORS; i++)
        vec_store(x + i * LANES, t.v[i]);
}

QSA_INLINE tile tile_fma(float a, tile b, tile c)
{
    QSA_UNROLL
    for (int i = 0; i < VECTORS; i++)
        c.v[i] = vfmaq_n_f32(c.v[i], b.v[i], a);
    return c;
}

/* Dimensions i .. i + 16 of a V row; i is a multiple of 16 in q8_0. */
QSA_INLINE tile tile_load(const void *row, size_t i, enum qsa_element type)
{
    tile t;
    const uint8_t *chunk = (const uint8_t *)row + i / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    vec scale = vec_zero();
    if (type == QSA_ELEMENT_Q8_0)
        scale = vec_set(qsa_f16_to_f32(*(const uint16_t *)(const void *)chunk));
    QSA_UNROLL
    for (size_t v = 0; v < VECTORS; v++)
        t.v[v] = type == QSA_ELEMENT_Q8_0
                     ? four_quants(chunk + sizeof(uint16_t) + i % QSA_CHUNK_DIMS + v * LANES, scale)
                     : four_load(row, i + v * LANES, type);
    return t;
}

QSA_INLINE tile tile_load_parts(const void *const part[VECTORS], size_t i, enum qsa_element type)
{
    tile t;
    QSA_UNROLL
    for (int v = 0; v < VECTORS; v++)
        t.v[v] = four_load(part[v], i, type);
    return t;
}

QSA_INLINE tile tile_in_order(tile t, enum qsa_element type)
{
    (void)type;
    return t;
}

#endif
