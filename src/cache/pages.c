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

/* Tiles and blocks are dimension-major, so a part of a page is not one piece; whole pages of a layer are. What lies
 * beyond `slots` is copied too and never read. */
void qsa_page_copy(qsa_cache *cache, uint32_t from, uint32_t to, uint32_t slots)
{
    const qsa_layout *layout = &cache->layout;
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++)
        for (uint32_t layer = 0; layer < layout->layers; layer++)
            memcpy(cache->arena[arena] + qsa_layout_page(layout, arena, layer, to),
                   cache->arena[arena] + qsa_layout_page(layout, arena, layer, from),
                   (size_t)layout->page_stride[arena]);
    memcpy(qsa_triple_at(cache, (qsa_place){to, 0}), qsa_triple_at(cache, (qsa_place){from, 0}),
           slots * sizeof(qsa_triple));
    cache->counters.pages_copied++;
}
