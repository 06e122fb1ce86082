/* SPDX-License-Identifier: Apache-2.0 */
/* What integers.inc and floats.inc ask of an instruction set, for NEON: 4 rows in the lanes of a vector. Where the
 * compiler may use the dot product instructions they make the byte dot products. */
#ifndef QSA_PRODUCTS_VECTOR_NEON_H
#define QSA_PRODUCTS_VECTOR_NEON_H

#include "products/tile.h"

#include "base/elementary.h"
#include "products/grids.h"

#include <arm_neon.h>

enum { LANES = 4, GROUPS = 2, FLOAT_ROWS = 2, FLOAT_COLUMNS = 3 };
#include "products/vector.h"

/* The compiler does not fold loads here. */
#define IN_REGISTER(x) (void)(x)

/* ---- Loading rows ---- */

typedef struct rows {
    const uint8_t *first;
    size_t stride;
} rows;

INLINE rows rows_at(const uint8_t *p, size_t stride)
{
    return (rows){p, stride};
}

INLINE const uint8_t *row_at(const rows *r, size_t i)
{
    return r->first + i * r->stride;
}

/* out[j]: dword j of the 16 bytes at `offset` of every row. */
INLINE void load_4_words(const rows *r, size_t offset, words out[4])
{
    uint32x4_t in[4];
    UNROLL
    for (size_t i = 0; i < 4; i++)
        in[i] = vreinterpretq_u32_u8(vld1q_u8(row_at(r, i) + offset));
    uint64x2_t even01 = vreinterpretq_u64_u32(vtrn1q_u32(in[0], in[1]));
    uint64x2_t odd01 = vreinterpretq_u64_u32(vtrn2q_u32(in[0], in[1]));
    uint64x2_t even23 = vreinterpretq_u64_u32(vtrn1q_u32(in[2], in[3]));
    uint64x2_t odd23 = vreinterpretq_u64_u32(vtrn2q_u32(in[2], in[3]));
    out[0] = (words)vtrn1q_u64(even01, even23);
    out[1] = (words)vtrn1q_u64(odd01, odd23);
    out[2] = (words)vtrn2q_u64(even01, even23);
    out[3] = (words)vtrn2q_u64(odd01, odd23);
}

/* Of the 32 bytes. */
INLINE void load_8_words(const rows *r, size_t offset, words out[8])
{
    load_4_words(r, offset, out);
    load_4_words(r, offset + 16, out + 4);
}

/* The dword of every row. */
INLINE words load_word(const rows *r, size_t offset)
{
    words v;
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        uint32_t word;
        memcpy(&word, row_at(r, i) + offset, sizeof word);
        v[i] = word;
    }
    return v;
}

/* ---- Parts of words ---- */

INLINE floats low_f16(words v)
{
    return (floats)vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)v)));
}

INLINE floats high_f16(words v)
{
    return low_f16(v >> 16);
}

/* The f16 of every row; four bytes are read. */
INLINE floats load_f16(const rows *r, size_t offset)
{
    return low_f16(load_word(r, offset));
}

INLINE floats to_floats(integers v)
{
    return (floats)vcvtq_f32_s32((int32x4_t)v);
}

/* Each byte's low nibble, looked up in 16 bytes. */
INLINE words look_up(const int8_t table[16], words nibbles)
{
    return (words)vqtbl1q_s8(vld1q_s8(table), (uint8x16_t)nibbles);
}

/* Bit 4 j + i of a word in all bits of byte i. */
INLINE words spread_bits(words bits, int j)
{
    words index = (words){0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c} + 0x01010101u * (uint32_t)(j / 2);
    words mask = (words){0} + 0x08040201u * (uint32_t)(1 << (j % 2 * 4));
    return (words)vtstq_u8(vqtbl1q_u8((uint8x16_t)bits, (uint8x16_t)index), (uint8x16_t)mask);
}

/* table[index] */
INLINE words gather(const uint16_t *table, words index)
{
    return (words){table[index[0]], table[index[1]], table[index[2]], table[index[3]]};
}

/* ---- Sums: weights are packed as signed bytes ---- */

INLINE words pack_signed(words codes, int zero)
{
    return zero ? (words)vsubq_s8((int8x16_t)codes, vdupq_n_s8((int8_t)zero)) : codes;
}

/* acc: the sums of four products in every lane join. */
INLINE int32x4_t dot_4(int32x4_t acc, int8x16_t w, const int8_t *q)
{
    int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(four_of(q)));
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(acc, w, four);
#else
    /* A pair of products is at most 2 * 128 * 127 and fits 16 bits. */
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(four)), high = vmull_high_s8(w, four);
    return vpadalq_s16(acc, vpaddq_s16(low, high));
#endif
}

/* The sums of n words of every group, times as many q. */
INLINE void dot(const words *w, size_t step, size_t groups, size_t n, bool is_signed, const int8_t *q, int32_t bias,
                integers *out)
{
    (void)is_signed;
    (void)bias;
    UNROLL
    for (size_t g = 0; g < groups; g++) {
        int32x4_t sum = vdupq_n_s32(0);
        UNROLL
        for (size_t i = 0; i < n; i++)
            sum = dot_4(sum, (int8x16_t)w[g * step + i], q + 4 * i);
        out[g] = (integers)sum;
    }
}

INLINE floats multiply_add(floats a, floats b, floats c)
{
    return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

INLINE floats splat(float x)
{
    return (floats)vdupq_n_f32(x);
}

/* The first n lanes. */
INLINE void store(float *out, floats v, size_t n)
{
    if (n == LANES)
        vst1q_f32(out, (float32x4_t)v);
    else
        memcpy(out, &v, n * sizeof(float));
}

INLINE void prefetch(const uint8_t *p)
{
    __builtin_prefetch(p);
}

/* ---- Floats ---- */

INLINE floats load_f32s(const uint8_t *p)
{
    return (floats)vreinterpretq_f32_u8(vld1q_u8(p));
}

INLINE floats load_f16s(const uint8_t *p)
{
    return (floats)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

INLINE floats load_bf16s(const uint8_t *p)
{
    return (floats)vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16);
}

/* Lane i + lane i + 8, then 4, 2, 1. */
INLINE float add_halves(const floats sixteen[4])
{
    float32x4_t four = (float32x4_t)((sixteen[0] + sixteen[2]) + (sixteen[1] + sixteen[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(vpadd_f32(two, two), 0);
}

/* The same of FLOAT_ROWS rows. */
INLINE void add_halves_rows(const floats *sixteens, size_t apart, float *out)
{
    for (size_t r = 0; r < FLOAT_ROWS; r++)
        out[r] = add_halves(sixteens + r * apart);
}

/* ---- Columns ---- */

INLINE void quantise_block(const float *x, qsa_column_block *out)
{
    uint32x4_t largest = vdupq_n_u32(0);
    int32x4_t q[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        largest = vmaxq_u32(largest, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + 4 * i)), vdupq_n_u32(0x7fffffff)));
    float a = qsa_f32_from_bits(vmaxvq_u32(largest));
    if (!(a >= 0x1p-100f && a < INFINITY)) {
        qsa_quantise_unusual(a, out);
        return;
    }
    float inverse = 127.0f / a;
    UNROLL
    for (int i = 0; i < 8; i++)
        q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    UNROLL
    for (int i = 0; i < 8; i += 2)
        vst1_s8(out->q + 4 * i, vmovn_s16(vcombine_s16(vmovn_s32(q[i]), vmovn_s32(q[i + 1]))));
    int32x4_t half0 = vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3]));
    int32x4_t half1 = vaddq_s32(vaddq_s32(q[4], q[5]), vaddq_s32(q[6], q[7]));
    qsa_finish_block(a, vaddvq_s32(half0), vaddvq_s32(half1), out);
}

#endif
