/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the invariants of cache.h. It allocates nothing: its scratch is the cache's. */
#include "cache/cache.h"

#include <inttypes.h>
#include <string.h>

static qsa_status check_run(const qsa_cache *cache, uint32_t slot)
{
    const qsa_sequence *s = &cache->sequences[slot];
    if (!s->open) {
        if (s->n_pages != 0)
            return qsa_fail(QSA_E_FORMAT, "invariant 6: closed sequence %" PRIu32 " has pages", slot);
        return QSA_OK;
    }
    if (s->anchor < 0 || s->frontier < s->anchor || s->frontier > QSA_MAX_POSITION + 1 ||
        s->first_slot >= QSA_PAGE_TOKENS || s->first_slot % cache->layout.config.ratio != 0)
        return qsa_fail(QSA_E_FORMAT, "invariant 2: sequence %" PRIu32 ": [%" PRId64 ", %" PRId64 "), slot %" PRIu32,
                        slot, s->anchor, s->frontier, s->first_slot);
    if (!cache->step_open && s->n_pages != qsa_sequence_pages(s))
        return qsa_fail(QSA_E_FORMAT, "invariant 3: sequence %" PRIu32 " has %" PRIu32 " pages, needs %" PRIu32, slot,
                        s->n_pages, qsa_sequence_pages(s));
    if (s->n_pages > 0 && s->first_entry != qsa_table_first_entry(s->anchor, s->frame, s->first_slot))
        return qsa_fail(QSA_E_FORMAT, "invariant 9: the table of sequence %" PRIu32 " begins at entry %" PRIu32, slot,
                        s->first_entry);
    return QSA_OK;
}

/* Every number on a free stack [n_free of n] has count 0, and every count of 0 is on it exactly once. Overwrites
 * counts [n]. */
static qsa_status check_free(const char *what, const uint32_t *stack, uint32_t n_free, uint32_t *counts, uint32_t n)
{
    if (n_free > n)
        return qsa_fail(QSA_E_FORMAT, "%s: %" PRIu32 " are free of %" PRIu32, what, n_free, n);
    for (uint32_t i = 0; i < n_free; i++)
        if (stack[i] >= n || counts[stack[i]]++ != 0)
            return qsa_fail(QSA_E_FORMAT, "%s %" PRIu32 " is free, and in use or twice free", what, stack[i]);
    for (uint32_t i = 0; i < n; i++)
        if (counts[i] == 0)
            return qsa_fail(QSA_E_FORMAT, "%s %" PRIu32 " is neither used nor free", what, i);
    return QSA_OK;
}

static qsa_status check_counts(const char *what, const uint32_t *counts, const uint32_t *references, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (counts[i] != references[i])
            return qsa_fail(QSA_E_FORMAT, "%s %" PRIu32 " is used %" PRIu32 " times, counted %" PRIu32, what, i,
                            counts[i], references[i]);
    return QSA_OK;
}

static qsa_status check_chunks(const qsa_cache *cache)
{
    static const char what[] = "invariant 7: chunk";
    memset(cache->counts, 0, cache->n_chunks * sizeof *cache->counts);
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++) {
        const qsa_sequence *s = &cache->sequences[slot];
        const uint32_t n = qsa_sequence_chunks(s, s->n_pages);
        for (uint32_t c = 0; c < n; c++) {
            if (n > qsa_directory_limit(cache->layout.pages) || s->table.chunks[c] >= cache->n_chunks)
                return qsa_fail(QSA_E_FORMAT, "invariant 7: the directory of sequence %" PRIu32 " leads elsewhere",
                                slot);
            cache->counts[s->table.chunks[c]]++;
        }
    }
    QSA_TRY(check_counts(what, cache->counts, cache->chunk_references, cache->n_chunks));
    return check_free(what, cache->free_chunks, cache->n_free_chunks, cache->counts, cache->n_chunks);
}

/* Directories are already checked. counts [pages]: the last sequence that refers to each page. */
static qsa_status check_distinct(const qsa_cache *cache)
{
    uint32_t *last = cache->counts;
    memset(last, 0xff, cache->layout.pages * sizeof *last);
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++)
        for (uint32_t i = 0; i < cache->sequences[slot].n_pages; i++) {
            const uint32_t page = *qsa_sequence_page(&cache->sequences[slot], i);
            if (page >= cache->layout.pages)
                return qsa_fail(QSA_E_FORMAT, "invariant 1: sequence %" PRIu32 " refers to page %" PRIu32, slot, page);
            if (last[page] == slot)
                return qsa_fail(QSA_E_FORMAT, "invariant 8: sequence %" PRIu32 " refers to page %" PRIu32 " twice",
                                slot, page);
            last[page] = slot;
        }
    return QSA_OK;
}

/* Page numbers in tables are already checked. */
static qsa_status check_pages(const qsa_cache *cache)
{
    static const char what[] = "invariant 1: page";
    const uint32_t pages = (uint32_t)cache->layout.pages;
    memset(cache->counts, 0, pages * sizeof *cache->counts);
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++)
        for (uint32_t i = 0; i < cache->sequences[slot].n_pages; i++)
            cache->counts[*qsa_sequence_page(&cache->sequences[slot], i)]++;
    QSA_TRY(check_counts(what, cache->counts, cache->references, pages));
    return check_free(what, cache->free_pages, cache->n_free, cache->counts, pages);
}

qsa_status qsa_cache_check(const qsa_cache *cache)
{
    if (cache == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "cache is NULL");
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++)
        QSA_TRY(check_run(cache, slot));
    if (cache->step_open || cache->calls_host)
        return QSA_OK; /* pages and chunks that a step or a restore takes are not counted until it ends */
    QSA_TRY(check_chunks(cache));
    QSA_TRY(check_distinct(cache));
    return check_pages(cache);
}
