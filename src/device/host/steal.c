/* SPDX-License-Identifier: Apache-2.0 */
/* Work stealing: one atomic counter per part. */
#include "device/host/steal.h"

#include "device/device.h"

#include <assert.h>

void qsa_steal_reset(qsa_next_task *next)
{
    atomic_store_explicit(&next->task, QSA_NOT_BEGUN, memory_order_relaxed);
}

/* Whatever a task reads was finished before the phase's barrier; only the counter is shared, hence relaxed order. */
static bool take(qsa_next_task *next, uint64_t own_end, uint32_t most, uint64_t *begin, uint64_t *end)
{
    if (atomic_load_explicit(&next->task, memory_order_relaxed) >= own_end)
        return false; /* nothing left, or not begun */
    *begin = atomic_fetch_add_explicit(&next->task, most, memory_order_relaxed);
    *end = own_end - *begin < most ? own_end : *begin + most;
    return *begin < own_end;
}

bool qsa_steal(qsa_next_task *next, uint64_t n, uint32_t part, uint32_t parts, uint32_t most, uint64_t *begin,
               uint64_t *end)
{
    assert(part < parts && most > 0 && n < QSA_NOT_BEGUN / 2);
    uint64_t own_begin, own_end;
    qsa_share(n, part, parts, &own_begin, &own_end);
    qsa_next_task *own = &next[part];
    if (atomic_load_explicit(&own->task, memory_order_relaxed) == QSA_NOT_BEGUN)
        atomic_store_explicit(&own->task, own_begin, memory_order_relaxed);
    if (take(own, own_end, most, begin, end))
        return true;
    for (uint32_t i = 1; i < parts; i++) {
        const uint32_t other = (part + i) % parts;
        qsa_share(n, other, parts, &own_begin, &own_end);
        if (take(&next[other], own_end, most, begin, end))
            return true;
    }
    return false;
}
