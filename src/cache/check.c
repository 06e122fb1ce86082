/* SPDX-License-Identifier: Apache-2.0 */
/* The checker of the invariants in cache.h. */
#include "cache/cache.h"

#include <inttypes.h>
#include <string.h>

static qsa_status check_sequence(const qsa_cache *cache, uint32_t slot)
{
    const qsa_sequence *s = &cache->sequences[slot];
    if (!s->open) {
        if (s->n_pages != 0)
            return qsa_fail(QSA_E_FORMAT, "invariant 6: closed sequence %" PRIu32 " has pages", slot);
        return QSA_OK;
    }
    if (s->anchor < 0 || s->frontier < s->anchor || s->frontier > QSA_MAX_POSITION + 1 ||
        s->first_slot >= QSA_PAGE_TOKENS || s->first_slot % cache->layout.ratio != 0)
        return qsa_fail(QSA_E_FORMAT, "invariant 2: sequence %" PRIu32 ": [%" PRId64 ", %" PRId64 "), slot %" PRIu32,
                        slot, s->anchor, s->frontier, s->first_slot);
    uint64_t tokens = (uint64_t)(s->frontier - s->anchor);
    uint64_t needed = tokens == 0 ? 0 : qsa_pages_for(s->first_slot + tokens);
    if (s->table < s->tables || s->table + s->n_pages > s->tables + 2 * cache->layout.pages)
        return qsa_fail(QSA_E_FORMAT, "invariant 7: sequence %" PRIu32 " has its table elsewhere", slot);
    if (!cache->step_open && s->n_pages != needed)
        return qsa_fail(QSA_E_FORMAT, "invariant 3: sequence %" PRIu32 " has %" PRIu32 " pages, needs %" PRIu64, slot,
                        s->n_pages, needed);
    return QSA_OK;
}

/* last [pages] is working memory. */
static qsa_status check_distinct(const qsa_cache *cache, uint32_t *last)
{
    memset(last, 0xff, cache->layout.pages * sizeof *last);
    for (uint32_t slot = 0; slot < cache->config.max_sequences; slot++)
        for (uint32_t i = 0; i < cache->sequences[slot].n_pages; i++) {
            uint32_t page = cache->sequences[slot].table[i];
            if (page >= cache->layout.pages)
                return qsa_fail(QSA_E_FORMAT, "invariant 1: sequence %" PRIu32 " refers to page %" PRIu32, slot, page);
            if (last[page] == slot)
                return qsa_fail(QSA_E_FORMAT, "invariant 8: sequence %" PRIu32 " refers to page %" PRIu32 " twice",
                                slot, page);
            last[page] = slot;
        }
    return QSA_OK;
}

/* counts [pages] is working memory; every page number in a table is one. */
static qsa_status check_counts(const qsa_cache *cache, uint32_t *counts)
{
    const uint32_t pages = (uint32_t)cache->layout.pages;
    memset(counts, 0, pages * sizeof *counts);
    for (uint32_t slot = 0; slot < cache->config.max_sequences; slot++)
        for (uint32_t i = 0; i < cache->sequences[slot].n_pages; i++)
            counts[cache->sequences[slot].table[i]]++;
    for (uint32_t page = 0; page < pages; page++)
        if (counts[page] != cache->references[page])
            return qsa_fail(QSA_E_FORMAT, "invariant 1: page %" PRIu32 " is used %" PRIu32 " times, counted %" PRIu32,
                            page, counts[page], cache->references[page]);
    if (cache->n_free > pages)
        return qsa_fail(QSA_E_FORMAT, "invariant 1: %" PRIu32 " free pages of %" PRIu32, cache->n_free, pages);
    for (uint32_t i = 0; i < cache->n_free; i++) {
        uint32_t page = cache->free_pages[i];
        if (page >= pages || counts[page]++ != 0)
            return qsa_fail(QSA_E_FORMAT, "invariant 1: free page %" PRIu32 " is in use or twice free", page);
    }
    for (uint32_t page = 0; page < pages; page++)
        if (counts[page] == 0)
            return qsa_fail(QSA_E_FORMAT, "invariant 1: page %" PRIu32 " is neither used nor free", page);
    return QSA_OK;
}

qsa_status qsa_cache_check(const qsa_cache *cache)
{
    if (cache == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "cache is NULL");
    for (uint32_t slot = 0; slot < cache->config.max_sequences; slot++)
        QSA_TRY(check_sequence(cache, slot));
    if (cache->step_open)
        return QSA_OK; /* pages that the step replaces are counted nowhere until it ends */
    uint64_t bytes = cache->layout.pages * sizeof(uint32_t);
    uint32_t *counts = qsa_allocate(&cache->allocator, bytes);
    if (counts == NULL)
        return qsa_fail(QSA_E_MEMORY, "check: no memory for %" PRIu64 " page counts", cache->layout.pages);
    qsa_status status = check_distinct(cache, counts);
    if (status == QSA_OK)
        status = check_counts(cache, counts);
    qsa_release(&cache->allocator, counts, bytes);
    return status;
}
