/* SPDX-License-Identifier: Apache-2.0 */
/* What the AVX2 kernels share. Only files that are compiled for AVX2 include this. */
#ifndef QSA_KERNELS_X86_AVX2_H
#define QSA_KERNELS_X86_AVX2_H

#include "kernels/element.h"
#include "kernels/functions.h"

#include <immintrin.h>

/* A function that is a template: its constant arguments are known wherever it is called. */
#define QSA_INLINE static inline __attribute__((always_inline))

/* Unrolls the loop that follows completely, so that arrays of vectors live in registers. */
#if defined(__clang__)
#define QSA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QSA_UNROLL _Pragma("GCC unroll 16")
#endif

/* Runs `call`, in which ROWS_CONSTANT is the constant 1 .. 6 that `rows` equals: the rows of q, or of p, that share what
 * is loaded. Six rows of two vectors are twelve accumulators; with two of keys, one of q and one of zeros they fill the
 * 16 registers. */
#define QSA_ROWS_CASE(n, call)                                                                                         \
    case n: {                                                                                                          \
        enum { ROWS_CONSTANT = n };                                                                                    \
        call;                                                                                                          \
        break;                                                                                                         \
    }
#define QSA_WITH_CONSTANT_ROWS(rows, call)                                                                             \
    switch (rows) {                                                                                                    \
        QSA_ROWS_CASE(1, call)                                                                                         \
        QSA_ROWS_CASE(2, call)                                                                                         \
        QSA_ROWS_CASE(3, call)                                                                                         \
        QSA_ROWS_CASE(4, call)                                                                                         \
        QSA_ROWS_CASE(5, call)                                                                                         \
        QSA_ROWS_CASE(6, call)                                                                                         \
    }

/* In how many passes of at most `most` rows of q each all rows are done. Pass i of n takes rows * i / n to
 * rows * (i + 1) / n: dealt out evenly, so that 8 are 4 and 4, not 6 and 2, of which the 2 would wait for their chains. */
static inline size_t qsa_passes(size_t rows, size_t most)
{
    return (rows + most - 1) / most;
}

/* Sixteen values as two vectors of f32. From bf16 they come as 0-3 8-11 | 4-7 12-15, because interleaving with zeros
 * within halves is cheaper than widening across them: it leaves the ports of the fma alone. Sums of lanes do not mind;
 * whoever stores them calls qsa_natural_order. */
typedef struct qsa_pair {
    __m256 v[2];
} qsa_pair;

QSA_INLINE qsa_pair qsa_pair_from_bf16(__m256i bits)
{
    __m256i zero = _mm256_setzero_si256();
    return (qsa_pair){{_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, bits)),
                       _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, bits))}};
}

/* Sixteen neighbours, from values[i] on. */
QSA_INLINE qsa_pair qsa_pair_load(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_pair_from_bf16(_mm256_loadu_si256((const __m256i *)((const uint16_t *)values + i)));
    const float *f = (const float *)values + i;
    return (qsa_pair){{_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8)}};
}

/* Eight neighbours from low[i] on, then eight from high[i] on. */
QSA_INLINE qsa_pair qsa_pair_load_two(const void *low, const void *high, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_pair_from_bf16(_mm256_loadu2_m128i((const __m128i *)((const uint16_t *)high + i),
                                                      (const __m128i *)((const uint16_t *)low + i)));
    return (qsa_pair){{_mm256_loadu_ps((const float *)low + i), _mm256_loadu_ps((const float *)high + i)}};
}

/* Lanes in the order of qsa_pair_load, put into the order of memory. */
QSA_INLINE qsa_pair qsa_natural_order(qsa_pair x, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return (qsa_pair){{_mm256_permute2f128_ps(x.v[0], x.v[1], 0x20), _mm256_permute2f128_ps(x.v[0], x.v[1], 0x31)}};
    return x;
}

/* All ones in the first `count` lanes, 0 <= count; from 8 on in all. */
QSA_INLINE __m256i qsa_first_lanes(size_t count)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count < 8 ? (int)count : 8), lane);
}

/* The first `count` of eight floats; the rest +0, and not read. */
QSA_INLINE __m256 qsa_load_first(const float *x, size_t count)
{
    return count >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, qsa_first_lanes(count));
}

QSA_INLINE void qsa_store_first(float *x, size_t count, __m256 v)
{
    if (count >= 8)
        _mm256_storeu_ps(x, v);
    else
        _mm256_maskstore_ps(x, qsa_first_lanes(count), v);
}

/* Turns four neighbours of each of eight rows into four vectors of eight lanes, lane r from row r: out[k] holds
 * rows[r][i + k]. So eight chains run side by side and none is cut. */
QSA_INLINE void qsa_columns_load(const float *const rows[8], size_t i, __m256 out[4])
{
    __m256 a = _mm256_loadu2_m128(rows[4] + i, rows[0] + i);
    __m256 b = _mm256_loadu2_m128(rows[5] + i, rows[1] + i);
    __m256 c = _mm256_loadu2_m128(rows[6] + i, rows[2] + i);
    __m256 d = _mm256_loadu2_m128(rows[7] + i, rows[3] + i);
    __m256 ab_low = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
    __m256 cd_low = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
    out[0] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
    out[1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
    out[2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
    out[3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
}

#endif
