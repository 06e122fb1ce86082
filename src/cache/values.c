/* SPDX-License-Identifier: Apache-2.0 */
/* Values to and from pages. Every store and load of an element goes through here; kernels read blocks, tiles and V rows
 * in place. */
#include "base/elementary.h"
#include "cache/cache.h"
#include "kernels/element.h"

#include <math.h>
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

/* ---- rows of K and V: one token, one kv head ---- */

enum { ROW_LIMIT_BYTES = QSA_MAX_DIM * sizeof(float) };

/* 32 dimensions: d = amax / 127, quants rint(x / d) by the reciprocal of the unrounded d (SPEC section 5). */
static void encode_chunk(const float *x, uint8_t *chunk)
{
    float most = 0;
    for (uint32_t i = 0; i < QSA_CHUNK_DIMS; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float d = most / 127.0f;
    const uint16_t scale = qsa_f32_to_f16(d);
    memcpy(chunk, &scale, sizeof scale);
    const float reciprocal = scale == 0 ? 0.0f : 1.0f / d;
    for (uint32_t i = 0; i < QSA_CHUNK_DIMS; i++)
        chunk[sizeof scale + i] = scale == 0 ? 0 : (uint8_t)(int8_t)rintf(x[i] * reciprocal);
}

static void encode_row(const qsa_cache *cache, const float *x, uint8_t *row)
{
    const qsa_layout *layout = &cache->layout;
    const uint32_t dim = layout->head_dim;
    if (layout->kv_element == QSA_ELEMENT_BF16)
        cache->kernels->to_bf16(x, dim, (uint16_t *)(void *)row);
    else if (layout->kv_element == QSA_ELEMENT_F16)
        for (uint32_t i = 0; i < dim; i++)
            ((uint16_t *)(void *)row)[i] = qsa_f32_to_f16(x[i]);
    else if (layout->kv_element == QSA_ELEMENT_Q8_0)
        for (uint32_t i = 0; i < dim; i += QSA_CHUNK_DIMS)
            encode_chunk(x + i, row + i / QSA_CHUNK_DIMS * QSA_V_CHUNK_BYTES);
    else
        memcpy(row, x, dim * sizeof *x);
}

static void decode_row(const qsa_layout *layout, const uint8_t *row, float *x)
{
    for (uint32_t d = 0; d < layout->head_dim; d++)
        x[d] = qsa_v_at(row, d, layout->kv_element);
}

bool qsa_storable(const qsa_layout *layout, const float *x)
{
    if (layout->kv_element != QSA_ELEMENT_F16 && layout->kv_element != QSA_ELEMENT_Q8_0)
        return true;
    float most = 0;
    for (uint32_t i = 0; i < layout->head_dim; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return (layout->kv_element == QSA_ELEMENT_F16 ? most : most / 127.0f) < 65520.0f;
}

static uint8_t *k_block(const qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head)
{
    return page_at(cache, QSA_ARENA_K, layer, place.page) + qsa_layout_k_block(&cache->layout, head, place.slot);
}

static uint8_t *v_row(const qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head)
{
    return page_at(cache, QSA_ARENA_V, layer, place.page) + qsa_layout_v_token(&cache->layout, head, place.slot);
}

void qsa_store_k(qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, const float *x)
{
    _Alignas(float) uint8_t row[ROW_LIMIT_BYTES];
    encode_row(cache, x, row);
    qsa_layout_block_put(&cache->layout, k_block(cache, layer, place, head), place.slot % QSA_BLOCK_TOKENS, row);
}

void qsa_load_k(const qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, float *x)
{
    _Alignas(float) uint8_t row[ROW_LIMIT_BYTES];
    qsa_layout_block_take(&cache->layout, k_block(cache, layer, place, head), place.slot % QSA_BLOCK_TOKENS, row);
    decode_row(&cache->layout, row, x);
}

void qsa_store_v(qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, const float *x)
{
    encode_row(cache, x, v_row(cache, layer, place, head));
}

void qsa_load_v(const qsa_cache *cache, uint32_t layer, qsa_place place, uint32_t head, float *x)
{
    decode_row(&cache->layout, v_row(cache, layer, place, head), x);
}

/* ---- index keys ---- */

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

void qsa_slot_copy(qsa_cache *cache, qsa_place from, qsa_place to)
{
    const qsa_layout *layout = &cache->layout;
    const size_t raw_bytes = (size_t)layout->index_dim * layout->index_bytes;
    _Alignas(float) uint8_t row[ROW_LIMIT_BYTES];
    for (uint32_t layer = 0; layer < layout->layers; layer++) {
        for (uint32_t head = 0; head < layout->kv_heads; head++) {
            qsa_layout_block_take(layout, k_block(cache, layer, from, head), from.slot % QSA_BLOCK_TOKENS, row);
            qsa_layout_block_put(layout, k_block(cache, layer, to, head), to.slot % QSA_BLOCK_TOKENS, row);
            memcpy(v_row(cache, layer, to, head), v_row(cache, layer, from, head), layout->row_bytes);
        }
        memcpy(page_at(cache, QSA_ARENA_RAW, layer, to.page) + to.slot * raw_bytes,
               page_at(cache, QSA_ARENA_RAW, layer, from.page) + from.slot * raw_bytes, raw_bytes);
    }
    *qsa_triple_at(cache, to) = *qsa_triple_at(cache, from);
}
