/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the elements of a page. */
#include "device/values.h"

#include "base/elementary.h"
#include "kernels/element.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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

/* To the nearest integer, ties to even: rint for |x| < 2^22, without a call where the baseline has no instruction. */
static inline int8_t nearest(float x)
{
    return (int8_t)((x + QSA_E2_ROUNDER) - QSA_E2_ROUNDER);
}

/* 32 dimensions: d = amax / 127, quants rint(x / d) by the reciprocal of the unrounded d (SPEC section 5). If d rounds
 * to 0, all quants are 0. Magnitudes compare like their bits, which compilers vectorize. */
static void encode_chunk(const float *restrict x, uint8_t *restrict chunk)
{
    int32_t most = 0;
    for (size_t i = 0; i < QSA_CHUNK_DIMS; i++) {
        const int32_t magnitude = (int32_t)(qsa_f32_bits(x[i]) & 0x7fffffffu);
        most = magnitude > most ? magnitude : most;
    }
    const float d = qsa_f32_from_bits((uint32_t)most) / 127.0f;
    const uint16_t scale = qsa_f32_to_f16(d);
    memcpy(chunk, &scale, sizeof scale);
    const float reciprocal = scale == 0 ? 0.0f : 1.0f / d;
    for (size_t i = 0; i < QSA_CHUNK_DIMS; i++)
        chunk[sizeof scale + i] = (uint8_t)nearest(x[i] * reciprocal);
}

static void encode_row(const qsa_kernels *kernels, const qsa_layout *layout, const float *x, uint8_t *row)
{
    const uint32_t dim = layout->config.head_dim;
    if (layout->kv_element == QSA_ELEMENT_BF16)
        kernels->to_bf16(x, dim, (uint16_t *)(void *)row);
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
    for (uint32_t d = 0; d < layout->config.head_dim; d++)
        x[d] = qsa_v_at(row, d, layout->kv_element);
}

/* The largest values below 65,520, where f16 overflows, and below the smallest number whose 127th part, rounded,
 * reaches 65,520. */
#define F16_LIMIT 0x1.ffdffep+15f
#define Q8_0_LIMIT 8321039.5f

bool qsa_storable(const qsa_kernels *kernels, const qsa_layout *layout, const float *x)
{
    if (layout->kv_element != QSA_ELEMENT_F16 && layout->kv_element != QSA_ELEMENT_Q8_0)
        return true;
    const float limit = layout->kv_element == QSA_ELEMENT_F16 ? F16_LIMIT : Q8_0_LIMIT;
    return kernels->check(x, layout->config.head_dim, limit) == layout->config.head_dim;
}

void qsa_store_k(const qsa_kernels *kernels, const qsa_layout *layout, uint8_t *page, uint32_t slot, uint32_t head,
                 const float *x)
{
    _Alignas(float) uint8_t row[ROW_LIMIT_BYTES];
    encode_row(kernels, layout, x, row);
    qsa_layout_block_put(layout, page + qsa_layout_k_block(layout, head, slot), slot % QSA_BLOCK_TOKENS, row);
}

void qsa_store_k_block(const qsa_kernels *kernels, const qsa_layout *layout, uint8_t *page, uint32_t slot,
                       uint32_t head, const float *x, size_t stride)
{
    assert(slot % QSA_BLOCK_TOKENS == 0 && stride >= layout->config.head_dim);
    _Alignas(float) uint8_t rows[QSA_BLOCK_TOKENS * ROW_LIMIT_BYTES];
    for (uint32_t t = 0; t < QSA_BLOCK_TOKENS; t++)
        encode_row(kernels, layout, x + t * stride, rows + (size_t)t * layout->row_bytes);
    qsa_layout_block_fill(layout, page + qsa_layout_k_block(layout, head, slot), rows);
}

void qsa_load_k(const qsa_layout *layout, const uint8_t *page, uint32_t slot, uint32_t head, float *x)
{
    _Alignas(float) uint8_t row[ROW_LIMIT_BYTES];
    qsa_layout_block_take(layout, page + qsa_layout_k_block(layout, head, slot), slot % QSA_BLOCK_TOKENS, row);
    decode_row(layout, row, x);
}

void qsa_store_v(const qsa_kernels *kernels, const qsa_layout *layout, uint8_t *page, uint32_t slot, uint32_t head,
                 const float *x)
{
    encode_row(kernels, layout, x, page + qsa_layout_v_token(layout, head, slot));
}

void qsa_load_v(const qsa_layout *layout, const uint8_t *page, uint32_t slot, uint32_t head, float *x)
{
    decode_row(layout, page + qsa_layout_v_token(layout, head, slot), x);
}

void qsa_copy_kv(const qsa_layout *layout, const uint8_t *from, uint32_t from_slot, uint8_t *to, uint32_t to_slot)
{
    assert(from != to || from_slot != to_slot);
    _Alignas(float) uint8_t row[ROW_LIMIT_BYTES];
    for (uint32_t head = 0; head < layout->config.kv_heads; head++) {
        qsa_layout_block_take(layout, from + qsa_layout_k_block(layout, head, from_slot), from_slot % QSA_BLOCK_TOKENS,
                              row);
        qsa_layout_block_put(layout, to + qsa_layout_k_block(layout, head, to_slot), to_slot % QSA_BLOCK_TOKENS, row);
        memcpy(to + qsa_layout_v_token(layout, head, to_slot), from + qsa_layout_v_token(layout, head, from_slot),
               layout->row_bytes);
    }
}

/* ---- index keys ---- */

void qsa_store_raw(const qsa_layout *layout, uint8_t *page, uint32_t slot, const float *x)
{
    store(layout->index_element, page, qsa_layout_raw_token(layout, slot), 1, x, layout->config.index_dim);
}

void qsa_load_raw(const qsa_layout *layout, const uint8_t *page, uint32_t slot, float *x)
{
    load(layout->index_element, page, qsa_layout_raw_token(layout, slot), 1, x, layout->config.index_dim);
}

void qsa_store_pooled(const qsa_layout *layout, uint8_t *page, uint32_t first_slot, const float *x)
{
    assert(first_slot < QSA_PAGE_TOKENS && first_slot % layout->config.ratio == 0);
    store(layout->index_element, page, first_slot / layout->config.ratio, layout->page_groups, x,
          layout->config.index_dim);
}

void qsa_load_pooled(const qsa_layout *layout, const uint8_t *page, uint32_t first_slot, float *x)
{
    assert(first_slot < QSA_PAGE_TOKENS && first_slot % layout->config.ratio == 0);
    load(layout->index_element, page, first_slot / layout->config.ratio, layout->page_groups, x,
         layout->config.index_dim);
}

void qsa_pool_page_group(const qsa_kernels *kernels, const qsa_layout *layout, const qsa_pool_rule *rule,
                         const uint8_t *raw_page, uint32_t first_slot, const float *cos_sin, float *raw, float *out)
{
    assert(first_slot % layout->config.ratio == 0 && rule->ratio == layout->config.ratio);
    for (uint32_t t = 0; t < layout->config.ratio; t++)
        qsa_load_raw(layout, raw_page, first_slot + t, raw + (size_t)t * layout->config.index_dim);
    qsa_pool_one(kernels, rule, raw, cos_sin, out);
}
