/* SPDX-License-Identifier: Apache-2.0 */
/* Values to and from pages. Every store and load of an element goes through here; kernels read blocks, tiles and V rows
 * in place. */
#include "base/elementary.h"
#include "cache/cache.h"

#include <string.h>

static uint8_t *page_at(const qsa_cache *cache, enum qsa_arena arena, uint32_t layer, uint32_t page)
{
    return cache->arena[arena] + qsa_layout_page(&cache->layout, arena, layer, page);
}

/* n elements at base[first + i * stride]. */
static void store(enum qsa_element element, void *base, size_t first, size_t stride, const float *x, uint32_t n)
{
    if (element == QSA_ELEMENT_F32) {
        float *out = (float *)base + first;
        for (uint32_t i = 0; i < n; i++)
            out[i * stride] = x[i];
        return;
    }
    uint16_t *out = (uint16_t *)base + first;
    for (uint32_t i = 0; i < n; i++)
        out[i * stride] = qsa_f32_to_bf16(x[i]);
}

static void load(enum qsa_element element, const void *base, size_t first, size_t stride, float *x, uint32_t n)
{
    if (element == QSA_ELEMENT_F32) {
        const float *in = (const float *)base + first;
        for (uint32_t i = 0; i < n; i++)
            x[i] = in[i * stride];
        return;
    }
    const uint16_t *in = (const uint16_t *)base + first;
    for (uint32_t i = 0; i < n; i++)
        x[i] = qsa_bf16_to_f32(in[i * stride]);
}

static size_t k_first(const qsa_layout *layout, uint32_t head, uint32_t slot)
{
    return qsa_layout_k_block(layout, head, slot) + slot % QSA_BLOCK_TOKENS;
}

void qsa_store_k(qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, const float *x)
{
    const qsa_layout *layout = &cache->layout;
    store(layout->kv_element, page_at(cache, QSA_ARENA_K, layer, place.page), k_first(layout, head, place.slot),
          QSA_BLOCK_TOKENS, x, layout->head_dim);
}

void qsa_load_k(const qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, float *x)
{
    const qsa_layout *layout = &cache->layout;
    load(layout->kv_element, page_at(cache, QSA_ARENA_K, layer, place.page), k_first(layout, head, place.slot),
         QSA_BLOCK_TOKENS, x, layout->head_dim);
}

void qsa_store_v(qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, const float *x)
{
    const qsa_layout *layout = &cache->layout;
    store(layout->kv_element, page_at(cache, QSA_ARENA_V, layer, place.page),
          qsa_layout_v_token(layout, head, place.slot), 1, x, layout->head_dim);
}

void qsa_load_v(const qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, float *x)
{
    const qsa_layout *layout = &cache->layout;
    load(layout->kv_element, page_at(cache, QSA_ARENA_V, layer, place.page),
         qsa_layout_v_token(layout, head, place.slot), 1, x, layout->head_dim);
}

void qsa_store_raw(qsa_cache *cache, uint32_t layer, qsa_place place, const float *x)
{
    const qsa_layout *layout = &cache->layout;
    store(layout->index_element, page_at(cache, QSA_ARENA_RAW, layer, place.page),
          qsa_layout_raw_token(layout, place.slot), 1, x, layout->index_dim);
}

void qsa_load_raw(const qsa_cache *cache, uint32_t layer, qsa_place place, float *x)
{
    const qsa_layout *layout = &cache->layout;
    load(layout->index_element, page_at(cache, QSA_ARENA_RAW, layer, place.page),
         qsa_layout_raw_token(layout, place.slot), 1, x, layout->index_dim);
}

void qsa_store_pooled(qsa_cache *cache, uint32_t layer, qsa_place first, const float *x)
{
    const qsa_layout *layout = &cache->layout;
    store(layout->index_element, page_at(cache, QSA_ARENA_POOLED, layer, first.page), first.slot / layout->ratio,
          layout->page_groups, x, layout->index_dim);
}

void qsa_load_pooled(const qsa_cache *cache, uint32_t layer, qsa_place first, float *x)
{
    const qsa_layout *layout = &cache->layout;
    load(layout->index_element, page_at(cache, QSA_ARENA_POOLED, layer, first.page), first.slot / layout->ratio,
         layout->page_groups, x, layout->index_dim);
}

static void copy_elements(const qsa_layout *layout, const uint8_t *from, size_t from_first, uint8_t *to,
                          size_t to_first, size_t stride, uint32_t n)
{
    if (layout->kv_bytes == 4)
        for (uint32_t i = 0; i < n; i++)
            ((uint32_t *)to)[to_first + i * stride] = ((const uint32_t *)from)[from_first + i * stride];
    else
        for (uint32_t i = 0; i < n; i++)
            ((uint16_t *)to)[to_first + i * stride] = ((const uint16_t *)from)[from_first + i * stride];
}

void qsa_slot_copy(qsa_cache *cache, qsa_place from, qsa_place to)
{
    const qsa_layout *layout = &cache->layout;
    const size_t raw_bytes = (size_t)layout->index_dim * layout->index_bytes;
    for (uint32_t layer = 0; layer < layout->layers; layer++) {
        for (uint32_t head = 0; head < layout->kv_heads; head++) {
            copy_elements(layout, page_at(cache, QSA_ARENA_K, layer, from.page), k_first(layout, head, from.slot),
                          page_at(cache, QSA_ARENA_K, layer, to.page), k_first(layout, head, to.slot), QSA_BLOCK_TOKENS,
                          layout->head_dim);
            copy_elements(layout, page_at(cache, QSA_ARENA_V, layer, from.page),
                          qsa_layout_v_token(layout, head, from.slot), page_at(cache, QSA_ARENA_V, layer, to.page),
                          qsa_layout_v_token(layout, head, to.slot), 1, layout->head_dim);
        }
        memcpy(page_at(cache, QSA_ARENA_RAW, layer, to.page) + to.slot * raw_bytes,
               page_at(cache, QSA_ARENA_RAW, layer, from.page) + from.slot * raw_bytes, raw_bytes);
    }
    *qsa_triple_at(cache, to) = *qsa_triple_at(cache, from);
}
