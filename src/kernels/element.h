/* SPDX-License-Identifier: Apache-2.0 */
/* One stored value, widened exactly to f32. */
#ifndef QSA_KERNELS_ELEMENT_H
#define QSA_KERNELS_ELEMENT_H

#include "base/elementary.h"
#include "kernels/kernels.h"

static inline float qsa_element_at(const void *values, size_t i, enum qsa_element type)
{
    if (type == QSA_ELEMENT_BF16)
        return qsa_bf16_to_f32(((const uint16_t *)values)[i]);
    return ((const float *)values)[i];
}

#endif
