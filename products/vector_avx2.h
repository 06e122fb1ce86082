/* SPDX-License-Identifier: Apache-2.0 */
/* What integers.inc and floats.inc ask of an instruction set, for AVX2 with FMA and F16C: 8 rows in the lanes of a
 * vector. Where the compiler may use AVX-VNNI it makes the byte dot products. */
#ifndef QSA_PRODUCTS_VECTOR_AVX2_H
#define QSA_PRODUCTS_VECTOR_AVX2_H

#include "products/tile.h"

#include "base/elementary.h"
#include "products/grids.h"

#include <immintrin.h>

enum { LANES = 8, GROUPS = 1, FLOAT_ROWS = 2, FLOAT_COLUMNS = 3 };
#include "products/vector.h"

/* Loads it once and not in each instruction that uses it. */
#define IN_REGISTER(x) __asm__("" : "+x"(x))

/* ---- Loading rows ---- */

/* Row 4 l + i begins at half[l] + i * stride. */
typedef struct rows {
    const uint8_t *half[2];
    size_t stride, stride3;
} rows;

INLINE rows rows_at(const uint8_t *p, size_t stride)
{
    rows r = {{p, p + 4 * stride}, stride, 3 * stride};
    __asm__("" : "+r"(r.half[0]), "+r"(r.half[1]), "+r"(r.stride), "+r"(r.stride3));
    return r;
}

INLINE const uint8_t *row(const rows *r, int l, int i, size_t offset)
{
    size_t step = i == 0 ? 0 : i == 1 ? r->stride : i == 2 ? 2 * r->stride : r->stride3;
    return r->half[l] + step + offset;
}

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* out[j]: dword j of the 16 bytes at `offset` of every row. */
INLINE void load_4_words(const rows *r, size_t offset, words out[4])
{
    __m256i in[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        in[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(row(r, 0, i, offset))),
                                        load16(row(r, 1, i, offset)), 1);
    __m256i low01 = _mm256_unpacklo_epi32(in[0], in[1]), high01 = _mm256_unpackhi_epi32(in[0], in[1]);
    __m256i low23 = _mm256_unpacklo_epi32(in[2], in[3]), high23 = _mm256_unpackhi_epi32(in[2], in[3]);
    out[0] = (words)_mm256_unpacklo_epi64(low01, low23);
    out[1] = (words)_mm256_unpackhi_epi64(low01, low23);
    out[2] = (words)_mm256_unpacklo_epi64(high01, high23);
    out[3] = (words)_mm256_unpackhi_epi64(high01, high23);
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
    __m128i four[2];
    UNROLL
    for (int l = 0; l < 2; l++) {
        __m128i v[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = _mm_loadu_si32(row(r, l, i, offset));
        four[l] = _mm_unpacklo_epi64(_mm_unpacklo_epi32(v[0], v[1]), _mm_unpacklo_epi32(v[2], v[3]));
    }
    return (words)_mm256_set_m128i(four[1], four[0]);
}

/* The f16 of every row; four bytes are read. */
INLINE floats load_f16(const rows *r, size_t offset)
{
    __m128i four[2];
    UNROLL
    for (int l = 0; l < 2; l++) {
        __m128i v[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = _mm_loadu_si32(row(r, l, i, offset));
        four[l] = _mm_unpacklo_epi32(_mm_unpacklo_epi16(v[0], v[1]), _mm_unpacklo_epi16(v[2], v[3]));
    }
    return (floats)_mm256_cvtph_ps(_mm_unpacklo_epi64(four[0], four[1]));
}

/* ---- Parts of words ---- */

INLINE floats low_f16(words v)
{
    __m256i low = (__m256i)(v & 0xffff), packed = _mm256_packus_epi32(low, low);
    return (floats)_mm256_cvtph_ps(
        _mm_unpacklo_epi64(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1)));
}

INLINE floats high_f16(words v)
{
    return low_f16(v >> 16);
}

INLINE floats to_floats(integers v)
{
    return (floats)_mm256_cvtepi32_ps((__m256i)v);
}

/* Each byte's low nibble, looked up in 16 bytes. */
INLINE words look_up(const int8_t table[16], words nibbles)
{
    __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
    return (words)_mm256_shuffle_epi8(t, (__m256i)nibbles);
}

/* Bit 4 j + i of a word in all bits of byte i. */
INLINE words spread_bits(words bits, int j)
{
    int byte = j / 2, first = 1 << (j % 2 * 4);
    __m256i index = _mm256_broadcastsi128_si256(
        _mm_setr_epi32(0x01010101 * byte, 0x01010101 * (byte + 4), 0x01010101 * (byte + 8), 0x01010101 * (byte + 12)));
    __m256i mask = _mm256_set1_epi32((int)((uint32_t)first * 0x08040201u));
    return (words)_mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8((__m256i)bits, index), mask), mask);
}

/* table[index]; the number after it is read too. */
INLINE words gather(const uint16_t *table, words index)
{
    return (words)_mm256_i32gather_epi32((const int *)(const void *)table, (__m256i)index, 2) & 0xffff;
}

/* ---- Sums ---- */

#if defined(__AVXVNNI__)

/* Weights are packed as vpdpbusd wants them, unsigned: plain ones as they are, signed ones with 128 added, which
 * qsa_column_block.bias takes away again. */
INLINE words pack_signed(words codes, int zero)
{
    return (words)_mm256_add_epi8((__m256i)codes, _mm256_set1_epi8((char)(128 - zero)));
}

/* The sums of n words of every group, times as many q. */
INLINE void dot(const words *w, size_t step, size_t groups, size_t n, bool is_signed, const int8_t *q, int32_t bias,
                integers *out)
{
    UNROLL
    for (size_t g = 0; g < groups; g++) {
        __m256i sum = _mm256_set1_epi32(is_signed ? bias : 0);
        UNROLL
        for (size_t i = 0; i < n; i++)
            sum = _mm256_dpbusd_avx_epi32(sum, (__m256i)w[g * step + i], _mm256_set1_epi32(four_of(q + 4 * i)));
        out[g] = (integers)sum;
    }
}

#else

INLINE words pack_signed(words codes, int zero)
{
    return zero ? (words)_mm256_sub_epi8((__m256i)codes, _mm256_set1_epi8((char)zero)) : codes;
}

/* Sums of the four products of each lane, as sums of two in 16 bits: |w| <= 128 and |q| <= 127 fit. */
INLINE __m256i signed_pairs(__m256i w, __m256i q)
{
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
}

INLINE __m256i four_q(const int8_t *q)
{
    return _mm256_set1_epi32(four_of(q));
}

/* The sums of n words of every group, times as many q. Plain codes are at most 31: four pairs of products still fit 16
 * bits. */
INLINE void dot(const words *w, size_t step, size_t groups, size_t n, bool is_signed, const int8_t *q, int32_t bias,
                integers *out)
{
    (void)bias;
    const __m256i one = _mm256_set1_epi16(1);
    UNROLL
    for (size_t g = 0; g < groups; g++) {
        const words *v = w + g * step;
        __m256i sum = _mm256_setzero_si256();
        UNROLL
        for (size_t i = 0; i < n; i += is_signed ? 1 : 4) {
            __m256i pairs;
            if (is_signed) {
                pairs = signed_pairs((__m256i)v[i], four_q(q + 4 * i));
            } else {
                pairs = _mm256_maddubs_epi16((__m256i)v[i], four_q(q + 4 * i));
                UNROLL
                for (size_t j = i + 1; j < i + 4; j++)
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16((__m256i)v[j], four_q(q + 4 * j)));
            }
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, one));
        }
        out[g] = (integers)sum;
    }
}

#endif

INLINE floats multiply_add(floats a, floats b, floats c)
{
    return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

INLINE floats splat(float x)
{
    return (floats)_mm256_set1_ps(x);
}

/* The first n lanes. */
INLINE void store(float *out, floats v, size_t n)
{
    if (n == LANES)
        _mm256_storeu_ps(out, (__m256)v);
    else
        memcpy(out, &v, n * sizeof(float));
}

INLINE void prefetch(const uint8_t *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T1);
}

/* ---- Floats ---- */

INLINE floats load_f32s(const uint8_t *p)
{
    return (floats)_mm256_loadu_ps((const float *)(const void *)p);
}

INLINE floats load_f16s(const uint8_t *p)
{
    return (floats)_mm256_cvtph_ps(load16(p));
}

INLINE floats load_bf16s(const uint8_t *p)
{
    return (floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16);
}

/* Lane i + lane i + 8, then 4, 2, 1. */
INLINE float add_halves(const floats sixteen[2])
{
    __m256 eight = (__m256)(sixteen[0] + sixteen[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The same of FLOAT_ROWS rows. */
INLINE void add_halves_rows(const floats *sixteens, size_t apart, float *out)
{
    for (size_t r = 0; r < FLOAT_ROWS; r++)
        out[r] = add_halves(sixteens + r * apart);
}

/* ---- Columns ---- */

INLINE uint32_t largest_lane(__m256i v)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 0xb1)));
}

INLINE int32_t sum_of_lanes(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

INLINE void quantise_block(const float *x, qsa_column_block *out)
{
    __m256i magnitude = _mm256_set1_epi32(0x7fffffff), largest = _mm256_setzero_si256(), q[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + 8 * i));
        largest = _mm256_max_epu32(largest, _mm256_and_si256(bits, magnitude));
    }
    float a = qsa_f32_from_bits(largest_lane(largest));
    if (!(a >= 0x1p-100f && a < INFINITY)) {
        qsa_quantise_unusual(a, out);
        return;
    }
    __m256 inverse = _mm256_set1_ps(127.0f / a);
    UNROLL
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
    __m256i words01 = _mm256_packs_epi32(q[0], q[1]), words23 = _mm256_packs_epi32(q[2], q[3]);
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing works on 128 bits */
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words01, words23), order);
    _mm256_storeu_si256((__m256i *)(void *)out->q, bytes);
    qsa_finish_block(a, sum_of_lanes(_mm256_add_epi32(q[0], q[1])), sum_of_lanes(_mm256_add_epi32(q[2], q[3])), out);
}

#endif
