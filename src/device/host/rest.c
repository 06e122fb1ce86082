/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a phase that are worked off unit by unit. */
#include "device/host/host.h"

static qsa_rest *rest_of(const qsa_host_store *store, enum qsa_helped phase, uint32_t part)
{
    return &store->rests[(size_t)phase * store->base.config->max_parts + part];
}

void qsa_rests_reset(qsa_host_store *store, uint32_t part)
{
    for (int phase = 0; phase < QSA_HELPED_COUNT; phase++)
        atomic_store_explicit(&rest_of(store, (enum qsa_helped)phase, part)->next, QSA_NOT_BEGUN, memory_order_relaxed);
}

/* Units before the phase are finished by its barrier; within it only the counter is shared, hence relaxed order. */
static bool take(qsa_rest *rest, uint64_t share_end, uint32_t most, uint64_t *begin, uint64_t *end)
{
    if (atomic_load_explicit(&rest->next, memory_order_relaxed) >= share_end)
        return false; /* nothing left, or not begun */
    *begin = atomic_fetch_add_explicit(&rest->next, most, memory_order_relaxed);
    *end = share_end - *begin < most ? share_end : *begin + most;
    return *begin < share_end;
}

bool qsa_rests_take(qsa_host_store *store, enum qsa_helped phase, uint64_t n, uint32_t part, uint32_t parts,
                    uint32_t most, uint64_t *begin, uint64_t *end)
{
    uint64_t share_begin, share_end;
    qsa_share(n, part, parts, &share_begin, &share_end);
    qsa_rest *own = rest_of(store, phase, part);
    if (atomic_load_explicit(&own->next, memory_order_relaxed) == QSA_NOT_BEGUN)
        atomic_store_explicit(&own->next, share_begin, memory_order_relaxed);
    if (take(own, share_end, most, begin, end))
        return true;
    for (uint32_t i = 1; i < parts; i++) {
        const uint32_t other = (part + i) % parts;
        qsa_share(n, other, parts, &share_begin, &share_end);
        if (take(rest_of(store, phase, other), share_end, most, begin, end))
            return true;
    }
    return false;
}
