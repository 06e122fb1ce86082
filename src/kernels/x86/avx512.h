/* SPDX-License-Identifier: Apache-2.0 */
/* What the AVX-512 kernels share. Only files that are compiled for AVX-512 (F, BW, VL, DQ) include this. */
#ifndef QSA_KERNELS_X86_AVX512_H
#define QSA_KERNELS_X86_AVX512_H

#include "kernels/x86/avx2.h"

/* How many rows of q, or of p, share what is loaded: one of these, so that code exists for seven counts and not for
 * twelve. Twelve rows of two vectors leave eight of the 32 registers for what is loaded. */
#define QSA_WITH_CONSTANT_ROWS_12(rows, call)                                                                          \
    switch (rows) {                                                                                                    \
        QSA_ROWS_CASE(1, call)                                                                                         \
        QSA_ROWS_CASE(2, call)                                                                                         \
        QSA_ROWS_CASE(3, call)                                                                                         \
        QSA_ROWS_CASE(4, call)                                                                                         \
        QSA_ROWS_CASE(6, call)                                                                                         \
        QSA_ROWS_CASE(8, call)                                                                                         \
        QSA_ROWS_CASE(12, call)                                                                                        \
    }

/* The most of those counts that `rows` allows. */
static inline uint32_t qsa_rows_together(size_t rows)
{
    return rows >= 12 ? 12 : rows >= 8 ? 8 : rows >= 6 ? 6 : rows >= 4 ? 4 : rows >= 3 ? 3 : rows >= 2 ? 2 : 1;
}

/* 32 values as two vectors of f32. From bf16 they come as 0-3 8-11 16-19 24-27 | 4-7 12-15 20-23 28-31; see qsa_pair.
 */
typedef struct qsa_wide_pair {
    __m512 v[2];
} qsa_wide_pair;

QSA_INLINE qsa_wide_pair qsa_wide_from_bf16(__m512i bits)
{
    __m512i zero = _mm512_setzero_si512();
    return (qsa_wide_pair){{_mm512_castsi512_ps(_mm512_unpacklo_epi16(zero, bits)),
                            _mm512_castsi512_ps(_mm512_unpackhi_epi16(zero, bits))}};
}

/* Two halves of one vector. */
QSA_INLINE __m512i qsa_join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* 32 neighbours, from values[i] on. */
QSA_INLINE qsa_wide_pair qsa_wide_load(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16) {
        __m512i bits = _mm512_loadu_si512((const uint16_t *)values + i);
        __asm__("" : "+v"(bits)); /* in a register: gcc would load it once for each half */
        return qsa_wide_from_bf16(bits);
    }
    if (type == QSA_ELEMENT_F16) {
        const __m256i *h = (const __m256i *)((const uint16_t *)values + i);
        return (qsa_wide_pair){{_mm512_cvtph_ps(_mm256_loadu_si256(h)), _mm512_cvtph_ps(_mm256_loadu_si256(h + 1))}};
    }
    if (type == QSA_ELEMENT_Q8_0) { /* i is a multiple of 32: one chunk */
        const uint8_t *chunk = (const uint8_t *)values + i / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
        const __m128i *quants = (const __m128i *)(const void *)(chunk + sizeof(uint16_t));
        __m512 scale = _mm512_set1_ps(_cvtsh_ss(*(const uint16_t *)(const void *)chunk));
        return (qsa_wide_pair){
            {_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(quants))), scale),
             _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(quants + 1))), scale)}};
    }
    const float *f = (const float *)values + i;
    return (qsa_wide_pair){{_mm512_loadu_ps(f), _mm512_loadu_ps(f + 16)}};
}

/* Lanes in the order of qsa_wide_load, put into the order of memory. */
QSA_INLINE qsa_wide_pair qsa_wide_natural_order(qsa_wide_pair x, enum qsa_element type)
{
    if (type != QSA_ELEMENT_BF16)
        return x;
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i high = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    return (qsa_wide_pair){{_mm512_permutex2var_ps(x.v[0], low, x.v[1]), _mm512_permutex2var_ps(x.v[0], high, x.v[1])}};
}

#endif
