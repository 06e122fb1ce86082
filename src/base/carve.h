/* SPDX-License-Identifier: Apache-2.0 */
/* Carves many arrays from one allocation. With base NULL the same calls only add up the sizes. */
#ifndef QSA_BASE_CARVE_H
#define QSA_BASE_CARVE_H

#include "base/memory.h"
#include "base/status.h"

#include <assert.h>

typedef struct qsa_carve {
    uint8_t *base; /* NULL: measure only */
    uint64_t used;
    bool overflow;
} qsa_carve;

static inline void *qsa_carve_bytes(qsa_carve *carve, uint64_t count, uint64_t size)
{
    assert(size > 0 && carve->used % QSA_ALIGNMENT == 0);
    uint64_t bytes = 0, rounded = 0, end = 0;
    if (!qsa_multiply(count, size, &bytes) || !qsa_add(bytes, QSA_ALIGNMENT - 1, &rounded) ||
        !qsa_add(carve->used, rounded / QSA_ALIGNMENT * QSA_ALIGNMENT, &end)) {
        carve->overflow = true;
        return NULL;
    }
    void *memory = carve->base == NULL ? NULL : carve->base + carve->used;
    carve->used = end;
    return memory;
}

#endif
