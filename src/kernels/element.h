/* SPDX-License-Identifier: Apache-2.0 */
/* One stored value, widened exactly to f32. */
#ifndef QSA_KERNELS_ELEMENT_H
#define QSA_KERNELS_ELEMENT_H

#include "base/elementary.h"
#include "kernels/kernels.h"

/* Element i of an array of f32, bf16 or f16. */
static inline float qsa_element_at(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_bf16_to_f32(((const uint16_t *)values)[i]);
    if (type == QSA_ELEMENT_F16)
        return qsa_f16_to_f32(((const uint16_t *)values)[i]);
    return ((const float *)values)[i];
}

/* Dimension d of a V row. */
static inline float qsa_v_at(const void *row, size_t d, enum qsa_element type)
{
    if (type != QSA_ELEMENT_Q8_0)
        return qsa_element_at(row, d, type);
    const uint8_t *chunk = (const uint8_t *)row + d / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES;
    return qsa_f16_to_f32(*(const uint16_t *)(const void *)chunk) * (float)(int8_t)chunk[2 + d % QSA_CHUNK_DIMS];
}

/* Dimension d of token t of a K block. */
static inline float qsa_k_at(const void *block, size_t d, size_t t, enum qsa_element type)
{
    if (type != QSA_ELEMENT_Q8_0)
        return qsa_element_at(block, d * QSA_BLOCK_TOKENS + t, type);
    const uint8_t *chunk = (const uint8_t *)block + d / QSA_CHUNK_DIMS * QSA_K_CHUNK_BYTES;
    const uint8_t *quants = chunk + QSA_BLOCK_TOKENS * sizeof(uint16_t);
    return qsa_f16_to_f32(((const uint16_t *)(const void *)chunk)[t]) *
           (float)(int8_t)quants[d % QSA_CHUNK_DIMS * QSA_BLOCK_TOKENS + t];
}

#endif
