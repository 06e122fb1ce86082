/* SPDX-License-Identifier: Apache-2.0 */
/* What integers.inc asks of an instruction set, for AVX-512 with VNNI: 16 rows in the lanes of a vector. */
#ifndef QSA_PRODUCTS_VECTOR_AVX512_H
#define QSA_PRODUCTS_VECTOR_AVX512_H

#include "products/tile.h"

#include "base/elementary.h"
#include "products/grids.h"

#include <immintrin.h>
#include <string.h>

enum { LANES = 16, GROUPS = 2, FLOAT_ROWS = 8, FLOAT_COLUMNS = 3 };
#include "products/vector.h"

/* Loads it once and not in each instruction that uses it. */
#define IN_REGISTER(x) __asm__("" : "+v"(x))

/* ---- Loading rows ----
 *
 * Row 4 l + i begins at quarter[l] + i * stride. Six registers address all sixteen; a compiler left alone keeps one for
 * each. */

typedef struct rows {
    const uint8_t *quarter[4];
    size_t stride, stride3;
} rows;

INLINE rows rows_at(const uint8_t *p, size_t stride)
{
    rows r = {{p, p + 4 * stride, p + 8 * stride, p + 12 * stride}, stride, 3 * stride};
    __asm__("" : "+r"(r.quarter[0]), "+r"(r.quarter[1]), "+r"(r.quarter[2]), "+r"(r.quarter[3]));
    __asm__("" : "+r"(r.stride), "+r"(r.stride3));
    return r;
}

INLINE const uint8_t *row(const rows *r, int l, int i, size_t offset)
{
    size_t step = i == 0 ? 0 : i == 1 ? r->stride : i == 2 ? 2 * r->stride : r->stride3;
    return r->quarter[l] + step + offset;
}

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

INLINE __m256i load32(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

INLINE __m256i pair_of_16(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(low)), load16(high), 1);
}

INLINE __m512i pair_of_256(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* 128-bit lane l of in[i]: 16 bytes of row 4 l + i. out[j]: dword j of those bytes, rows in lanes. */
INLINE void transpose(const __m512i in[4], words out[4])
{
    __m512i low01 = _mm512_unpacklo_epi32(in[0], in[1]), high01 = _mm512_unpackhi_epi32(in[0], in[1]);
    __m512i low23 = _mm512_unpacklo_epi32(in[2], in[3]), high23 = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = (words)_mm512_unpacklo_epi64(low01, low23);
    out[1] = (words)_mm512_unpackhi_epi64(low01, low23);
    out[2] = (words)_mm512_unpacklo_epi64(high01, high23);
    out[3] = (words)_mm512_unpackhi_epi64(high01, high23);
}

/* out[j]: dword j of the 16 bytes at `offset` of every row. */
INLINE void load_4_words(const rows *r, size_t offset, words out[4])
{
    __m512i in[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        in[i] = pair_of_256(pair_of_16(row(r, 0, i, offset), row(r, 1, i, offset)),
                            pair_of_16(row(r, 2, i, offset), row(r, 3, i, offset)));
    transpose(in, out);
}

/* Of the 32 bytes. */
INLINE void load_8_words(const rows *r, size_t offset, words out[8])
{
    __m512i low[4], high[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m512i a = pair_of_256(load32(row(r, 0, i, offset)), load32(row(r, 1, i, offset)));
        __m512i b = pair_of_256(load32(row(r, 2, i, offset)), load32(row(r, 3, i, offset)));
        low[i] = _mm512_shuffle_i32x4(a, b, 0x88);
        high[i] = _mm512_shuffle_i32x4(a, b, 0xdd);
    }
    transpose(low, out);
    transpose(high, out + 4);
}

/* The dword of every row. */
INLINE words load_word(const rows *r, size_t offset)
{
    __m128i four[4];
    UNROLL
    for (int l = 0; l < 4; l++) {
        __m128i v[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = _mm_loadu_si32(row(r, l, i, offset));
        four[l] = _mm_unpacklo_epi64(_mm_unpacklo_epi32(v[0], v[1]), _mm_unpacklo_epi32(v[2], v[3]));
    }
    return (words)pair_of_256(_mm256_set_m128i(four[1], four[0]), _mm256_set_m128i(four[3], four[2]));
}

/* The f16 of every row; four bytes are read. */
INLINE floats load_f16(const rows *r, size_t offset)
{
    __m128i four[4];
    UNROLL
    for (int l = 0; l < 4; l++) {
        __m128i v[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = _mm_loadu_si32(row(r, l, i, offset));
        four[l] = _mm_unpacklo_epi32(_mm_unpacklo_epi16(v[0], v[1]), _mm_unpacklo_epi16(v[2], v[3]));
    }
    return (floats)_mm512_cvtph_ps(
        _mm256_set_m128i(_mm_unpacklo_epi64(four[2], four[3]), _mm_unpacklo_epi64(four[0], four[1])));
}

/* ---- Parts of words ---- */

INLINE floats low_f16(words v)
{
    return (floats)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)v));
}

INLINE floats high_f16(words v)
{
    return low_f16(v >> 16);
}

INLINE floats to_floats(integers v)
{
    return (floats)_mm512_cvtepi32_ps((__m512i)v);
}

/* Each byte's low nibble, looked up in 16 bytes. */
INLINE words look_up(const int8_t table[16], words nibbles)
{
    __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table));
    return (words)_mm512_shuffle_epi8(t, (__m512i)nibbles);
}

/* Bit 4 j + i of a word in all bits of byte i. */
INLINE words spread_bits(words bits, int j)
{
    int byte = j / 2, first = 1 << (j % 2 * 4);
    __m512i index = _mm512_broadcast_i32x4(
        _mm_setr_epi32(0x01010101 * byte, 0x01010101 * (byte + 4), 0x01010101 * (byte + 8), 0x01010101 * (byte + 12)));
    __m512i mask = _mm512_set1_epi32((int)((uint32_t)first * 0x08040201u));
    return (words)_mm512_movm_epi8(_mm512_test_epi8_mask(_mm512_shuffle_epi8((__m512i)bits, index), mask));
}

/* table[index]; the number after it is read too. */
INLINE words gather(const uint16_t *table, words index)
{
    return (words)_mm512_i32gather_epi32((__m512i)index, table, 2) & 0xffff;
}

/* ---- Sums ----
 *
 * Weights are packed as vpdpbusd wants them, unsigned: plain ones as they are, signed ones with 128 added, which
 * qsa_column_block.bias takes away again. */

/* w = code - zero, with 0 <= w + 128 <= 255. */
INLINE words pack_signed(words codes, int zero)
{
    return (words)_mm512_add_epi8((__m512i)codes, _mm512_set1_epi8((char)(128 - zero)));
}

INLINE integers dot_4(integers acc, words w, int32_t four)
{
    return (integers)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)w, _mm512_set1_epi32(four));
}

INLINE void dot(const words *w, size_t step, size_t groups, size_t n, bool is_signed, const int8_t *q, int32_t bias,
                integers *out)
{
    UNROLL
    for (size_t g = 0; g < groups; g++)
        out[g] = (integers){0} + (is_signed ? bias : 0);
    UNROLL
    for (size_t i = 0; i < n; i++) {
        int32_t four = four_of(q + 4 * i);
        UNROLL
        for (size_t g = 0; g < groups; g++)
            out[g] = dot_4(out[g], w[g * step + i], four);
    }
}

INLINE floats multiply_add(floats a, floats b, floats c)
{
    return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

INLINE floats splat(float x)
{
    return (floats)_mm512_set1_ps(x);
}

/* The first n lanes. */
INLINE void store(float *out, floats v, size_t n)
{
    _mm512_mask_storeu_ps(out, (__mmask16)((1u << n) - 1), (__m512)v);
}

INLINE void prefetch(const uint8_t *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T1);
}

/* ---- Floats ---- */

INLINE floats load_f32s(const uint8_t *p)
{
    return (floats)_mm512_loadu_ps(p);
}

INLINE floats load_f16s(const uint8_t *p)
{
    return (floats)_mm512_cvtph_ps(load32(p));
}

INLINE floats load_bf16s(const uint8_t *p)
{
    return (floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(load32(p)), 16);
}

/* Lane i + lane i + 8, then 4, 2, 1. */
INLINE float add_halves(const floats *sixteen)
{
    __m512 v = (__m512)*sixteen;
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* FLOAT_ROWS times the same, in out: two rows share a vector after the first addition, four after the second. */
INLINE void add_halves_rows(const floats *sixteens, size_t apart, float *out)
{
    __m512 two[4], four[2];
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        __m512 a = (__m512)sixteens[2 * i * apart], b = (__m512)sixteens[(2 * i + 1) * apart];
        two[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    UNROLL
    for (size_t i = 0; i < 2; i++) {
        __m512 a = two[2 * i], b = two[2 * i + 1];
        four[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    __m512 pairs = _mm512_add_ps(_mm512_shuffle_ps(four[0], four[1], 0x44), _mm512_shuffle_ps(four[0], four[1], 0xee));
    __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(pairs, pairs, 0x88), _mm512_shuffle_ps(pairs, pairs, 0xdd));
    __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(order, sums)));
}

/* ---- Columns ---- */

INLINE void quantise_block(const float *x, qsa_column_block *out)
{
    __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i largest = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                                       _mm512_and_si512(_mm512_castps_si512(x1), magnitude));
    float a = qsa_f32_from_bits(_mm512_reduce_max_epu32(largest));
    if (!(a >= 0x1p-100f && a < INFINITY)) {
        qsa_quantise_unusual(a, out);
        return;
    }
    __m512 inverse = _mm512_set1_ps(127.0f / a);
    __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inverse)), q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inverse));
    _mm_store_si128((__m128i *)(void *)out->q, _mm512_cvtepi32_epi8(q0));
    _mm_store_si128((__m128i *)(void *)(out->q + 16), _mm512_cvtepi32_epi8(q1));
    qsa_finish_block(a, _mm512_reduce_add_epi32(q0), _mm512_reduce_add_epi32(q1), out);
}

#endif
