/* SPDX-License-Identifier: Apache-2.0 */
/* Pages: reference counts, the free stack, and what copies or pools whole pages with their triples. */
#include "cache/cache.h"

#include "base/float_env.h"

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
    assert(page < cache->layout.pages && cache->references[page] > 0);
    assert(cache->n_free < cache->layout.pages || cache->references[page] > 1);
    if (--cache->references[page] == 0)
        cache->free_pages[cache->n_free++] = page;
}

static qsa_triple *triples_of(const qsa_cache *cache, uint32_t page)
{
    return qsa_triple_at(cache, (qsa_place){page, 0});
}

qsa_status qsa_page_copy(qsa_cache *cache, uint32_t from, uint32_t to)
{
    assert(from != to && from < cache->layout.pages && to < cache->layout.pages);
    QSA_TRY(cache->store->operations->copy_page(cache->store, from, to));
    memcpy(triples_of(cache, to), triples_of(cache, from), QSA_PAGE_TOKENS * sizeof(qsa_triple));
    cache->counters.pages_copied++;
    return QSA_OK;
}

qsa_status qsa_page_swap(qsa_cache *cache, uint32_t a, uint32_t b)
{
    assert(a < cache->layout.pages && b < cache->layout.pages);
    QSA_TRY(cache->store->operations->swap_pages(cache->store, a, b));
    qsa_triple *of_a = triples_of(cache, a), *of_b = triples_of(cache, b);
    for (int slot = 0; slot < QSA_PAGE_TOKENS; slot++) {
        const qsa_triple triple = of_a[slot];
        of_a[slot] = of_b[slot];
        of_b[slot] = triple;
    }
    const uint32_t references = cache->references[a];
    cache->references[a] = cache->references[b];
    cache->references[b] = references;
    return QSA_OK;
}

qsa_status qsa_slots_copy(qsa_cache *cache, qsa_place from, qsa_place to, uint32_t n)
{
    assert(n > 0 && from.slot + n <= QSA_PAGE_TOKENS && to.slot + n <= QSA_PAGE_TOKENS);
    QSA_TRY(cache->store->operations->copy_slots(cache->store, from, to, n));
    memcpy(qsa_triple_at(cache, to), qsa_triple_at(cache, from), n * sizeof(qsa_triple));
    return QSA_OK;
}

void qsa_page_cos_sin(const qsa_cache *cache, qsa_place place, float *out)
{
    qsa_rotary_fill(&cache->rotary, *qsa_triple_at(cache, place), out);
}

qsa_status qsa_page_pool(qsa_cache *cache, qsa_place first, uint32_t n)
{
    assert(n > 0 && first.slot % cache->layout.config.ratio == 0 &&
           first.slot + n * cache->layout.config.ratio <= QSA_PAGE_TOKENS);
    float *cos_sin = cache->page_cos_sin;
    qsa_float_env saved = qsa_float_env_enter();
    for (uint32_t g = 0; g < n; g++)
        qsa_page_cos_sin(cache, (qsa_place){first.page, first.slot + g * cache->layout.config.ratio},
                         cos_sin + (size_t)g * 2 * cache->rotary.pairs);
    qsa_float_env_leave(saved);
    return cache->store->operations->pool(cache->store, first, n, cos_sin);
}

qsa_status qsa_page_view(const qsa_cache *cache, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out)
{
    assert(layer < cache->layout.config.layers && page < cache->layout.pages && out != NULL);
    return cache->store->operations->view(cache->store, arena, layer, page, out);
}
