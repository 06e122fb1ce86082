/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/cache.h"

#include <assert.h>
#include <string.h>

uint32_t qsa_page_take(qsa_cache *cache)
{
    assert(cache->n_free > 0);
    uint32_t page = cache->free_pages[--cache->n_free];
    assert(cache->references[page] == 0);
    cache->references[page] = 1;
    cache->counters.pages_taken++;
    return page;
}

void qsa_page_drop(qsa_cache *cache, uint32_t page)
{
    assert(cache->references[page] > 0);
    if (--cache->references[page] == 0)
        cache->free_pages[cache->n_free++] = page;
}

/* Memory of one page: an arena of one layer, or the triples. */
static size_t piece(const qsa_cache *cache, int arena, uint32_t layer, uint32_t page, uint8_t **out)
{
    if (arena == QSA_ARENA_COUNT) {
        *out = (uint8_t *)qsa_triple_at(cache, (qsa_place){page, 0});
        return layer == 0 ? QSA_PAGE_TOKENS * sizeof(qsa_triple) : 0;
    }
    *out = cache->arena[arena] + qsa_layout_page(&cache->layout, arena, layer, page);
    return (size_t)cache->layout.page_stride[arena];
}

void qsa_page_copy(qsa_cache *cache, uint32_t from, uint32_t to)
{
    for (int arena = 0; arena <= QSA_ARENA_COUNT; arena++)
        for (uint32_t layer = 0; layer < cache->layout.layers; layer++) {
            uint8_t *source, *target;
            size_t bytes = piece(cache, arena, layer, from, &source);
            piece(cache, arena, layer, to, &target);
            memcpy(target, source, bytes);
        }
    cache->counters.pages_copied++;
}

static void swap_bytes(uint8_t *a, uint8_t *b, size_t bytes)
{
    uint8_t buffer[4096];
    for (size_t at = 0; at < bytes; at += sizeof buffer) {
        size_t n = bytes - at < sizeof buffer ? bytes - at : sizeof buffer;
        memcpy(buffer, a + at, n);
        memcpy(a + at, b + at, n);
        memcpy(b + at, buffer, n);
    }
}

void qsa_page_swap(qsa_cache *cache, uint32_t a, uint32_t b)
{
    for (int arena = 0; arena <= QSA_ARENA_COUNT; arena++)
        for (uint32_t layer = 0; layer < cache->layout.layers; layer++) {
            uint8_t *of_a, *of_b;
            size_t bytes = piece(cache, arena, layer, a, &of_a);
            piece(cache, arena, layer, b, &of_b);
            swap_bytes(of_a, of_b, bytes);
        }
    uint32_t references = cache->references[a];
    cache->references[a] = cache->references[b];
    cache->references[b] = references;
}
