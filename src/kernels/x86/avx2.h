/* SPDX-License-Identifier: Apache-2.0 */
/* What the AVX2 kernels share. Only files that are compiled for AVX2 include this. */
#ifndef QSA_KERNELS_X86_AVX2_H
#define QSA_KERNELS_X86_AVX2_H

#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

#include <immintrin.h>

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

/* Eight int8 as f32, times a scale: exact. */
QSA_INLINE __m256 qsa_eight_quants(const void *quants, __m256 scale)
{
    __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)quants));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale);
}

/* Dimensions i .. i + 16 of a V row, i a multiple of 16. */
QSA_INLINE qsa_pair qsa_pair_from_q8_0(const void *row, size_t i)
{
    const uint8_t *chunk = (const uint8_t *)row + i / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    const uint8_t *quants = chunk + sizeof(uint16_t) + i % QSA_CHUNK_DIMS;
    __m256 scale = _mm256_set1_ps(_cvtsh_ss(*(const uint16_t *)(const void *)chunk));
    return (qsa_pair){{qsa_eight_quants(quants, scale), qsa_eight_quants(quants + 8, scale)}};
}

/* Sixteen neighbours, from values[i] on. */
QSA_INLINE qsa_pair qsa_pair_load(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_pair_from_bf16(_mm256_loadu_si256((const __m256i *)((const uint16_t *)values + i)));
    if (type == QSA_ELEMENT_F16) {
        const __m128i *h = (const __m128i *)((const uint16_t *)values + i);
        return (qsa_pair){{_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))}};
    }
    if (type == QSA_ELEMENT_Q8_0)
        return qsa_pair_from_q8_0(values, i);
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

/* A K block of f16 or q8_0 to f32: out [dim][4]. */
QSA_INLINE void qsa_widen_block(const void *block, uint32_t dim, enum qsa_element type, float *out)
{
    if (type == QSA_ELEMENT_F16) {
        for (uint32_t d = 0; d < dim; d++)
            _mm_storeu_ps(out + 4 * (size_t)d,
                          _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)((const uint16_t *)block + 4 * (size_t)d))));
        return;
    }
    const uint8_t *chunk = block;
    for (uint32_t first = 0; first < dim; first += QSA_CHUNK_DIMS, chunk += QSA_K_CHUNK_BYTES) {
        __m128 four = _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)chunk));
        __m256 scales = _mm256_set_m128(four, four);
        const uint8_t *quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
        for (uint32_t d = 0; d < QSA_CHUNK_DIMS; d += 2) /* eight quants are two dimensions of four tokens */
            _mm256_storeu_ps(out + QSA_BLOCK_TOKENS * (size_t)(first + d),
                             qsa_eight_quants(quants + QSA_BLOCK_TOKENS * d, scales));
    }
}

/* q.k over blocks of f16 or q8_0: a few blocks at a time are widened, and the f32 kernel does the rest. */
enum { QSA_WIDE_FLOATS = 8192 };

QSA_INLINE void qsa_dots_widened(qsa_dots_fn *dots_f32, const float *q, uint32_t heads, uint32_t dim,
                                 const void *const *blocks, uint32_t n_blocks, enum qsa_element type, float *out,
                                 size_t out_stride)
{
    float wide[QSA_WIDE_FLOATS];
    const void *addresses[QSA_WIDE_FLOATS / QSA_BLOCK_TOKENS];
    const uint32_t block_floats = dim * QSA_BLOCK_TOKENS, most = QSA_WIDE_FLOATS / block_floats;
    for (uint32_t b = 0; b < n_blocks; b += most) {
        const uint32_t count = n_blocks - b < most ? n_blocks - b : most;
        for (uint32_t i = 0; i < count; i++) {
            addresses[i] = wide + (size_t)i * block_floats;
            qsa_widen_block(blocks[b + i], dim, type, wide + (size_t)i * block_floats);
        }
        dots_f32(q, heads, dim, addresses, count, out + (size_t)b * QSA_BLOCK_TOKENS, out_stride);
    }
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

/* Chains of plain additions along `heads` rows, as SPEC section 6 defines L: at most eight chains a vector, and two
 * vectors at once, because one alone would wait for its additions. Lanes beyond the last row repeat it. */
enum { QSA_CHAIN_LANES = 8, QSA_CHAIN_VECTORS = 2, QSA_CHAINS = QSA_CHAIN_LANES * QSA_CHAIN_VECTORS };

QSA_INLINE void qsa_add_chains_of(const float *p, size_t stride, uint32_t heads, uint32_t vectors, size_t n, float *sum)
{
    const float *rows[QSA_CHAINS];
    for (uint32_t h = 0; h < QSA_CHAIN_LANES * vectors; h++)
        rows[h] = p + (h < heads ? h : heads - 1) * stride;
    __m256 total[QSA_CHAIN_VECTORS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t j = 0;
    for (; j + 4 <= n; j += 4) {
        __m256 column[QSA_CHAIN_VECTORS][4];
        QSA_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            qsa_columns_load(rows + QSA_CHAIN_LANES * v, j, column[v]);
        QSA_UNROLL
        for (int k = 0; k < 4; k++)
            for (uint32_t v = 0; v < vectors; v++)
                total[v] = _mm256_add_ps(total[v], column[v][k]);
    }
    float totals[QSA_CHAINS];
    for (uint32_t v = 0; v < vectors; v++)
        _mm256_storeu_ps(totals + QSA_CHAIN_LANES * v, total[v]);
    for (uint32_t h = 0; h < heads; h++) {
        for (size_t rest = j; rest < n; rest++)
            totals[h] = totals[h] + rows[h][rest];
        sum[h] = totals[h];
    }
}

/* Of any number of rows. */
QSA_INLINE void qsa_add_chains(const float *p, size_t stride, uint32_t heads, size_t n, float *sum)
{
    for (uint32_t h = 0; h < heads; h += QSA_CHAINS) {
        const uint32_t count = heads - h < QSA_CHAINS ? heads - h : QSA_CHAINS;
        if (count > QSA_CHAIN_LANES)
            qsa_add_chains_of(p + h * stride, stride, count, 2, n, sum + h);
        else
            qsa_add_chains_of(p + h * stride, stride, count, 1, n, sum + h);
    }
}

#endif
