/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and strides of pages, and the interleaving of K blocks. */
#include "device/layout.h"

#include "base/shape.h"
#include "base/status.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(float) == 4 && sizeof(uint16_t) == 2, "element sizes");

static const enum qsa_element element_of[QSA_KV_TYPE_COUNT] = {[QSA_KV_F32] = QSA_ELEMENT_F32,
                                                               [QSA_KV_BF16] = QSA_ELEMENT_BF16,
                                                               [QSA_KV_F16] = QSA_ELEMENT_F16,
                                                               [QSA_KV_Q8_0] = QSA_ELEMENT_Q8_0};

qsa_status qsa_layout_init(const qsa_config *config, qsa_layout *out)
{
    assert(config->ratio > 0 && QSA_PAGE_TOKENS % config->ratio == 0 && config->capacity_tokens > 0);
    qsa_layout layout = {
        .config = *config,
        .page_groups = QSA_PAGE_TOKENS / config->ratio,
        .pages = (config->capacity_tokens + QSA_PAGE_TOKENS - 1) / QSA_PAGE_TOKENS,
        .kv_element = element_of[config->kv_type],
        .index_element = config->profile == QSA_PROFILE_F32 ? QSA_ELEMENT_F32 : QSA_ELEMENT_BF16,
    };
    qsa_shape_normalise(&layout.config);
    layout.config.norms = NULL;
    layout.config.allocator = NULL;
    layout.index_bytes = (uint32_t)qsa_row_bytes(layout.index_element, 1);
    layout.row_bytes = (uint32_t)qsa_row_bytes(layout.kv_element, layout.config.head_dim);
    layout.block_bytes = QSA_BLOCK_TOKENS * layout.row_bytes;
    layout.page_stride[QSA_ARENA_KV] = (uint64_t)QSA_PAGE_TOKENS * layout.config.kv_heads * 2 * layout.row_bytes;
    layout.page_stride[QSA_ARENA_RAW] = (uint64_t)QSA_PAGE_TOKENS * layout.config.index_dim * layout.index_bytes;
    layout.page_stride[QSA_ARENA_POOLED] = (uint64_t)layout.page_groups * layout.config.index_dim * layout.index_bytes;
    bool fits = qsa_multiply(layout.pages, QSA_PAGE_TOKENS * sizeof(qsa_triple), &layout.triple_bytes);
    uint64_t total = layout.triple_bytes;
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++) {
        fits = fits && qsa_multiply(layout.page_stride[arena], layout.pages, &layout.layer_stride[arena]) &&
               qsa_multiply(layout.layer_stride[arena], layout.config.layers, &layout.arena_bytes[arena]) &&
               qsa_add(total, layout.arena_bytes[arena], &total);
    }
    if (!fits || total > (uint64_t)INT64_MAX)
        return qsa_fail(QSA_E_LIMIT, "capacity_tokens: the cache would not fit in 2^63 bytes");
    *out = layout;
    return QSA_OK;
}

void qsa_layout_move(uint32_t bytes, const uint8_t *from, size_t from_stride, uint8_t *to, size_t to_stride, uint32_t n)
{
    assert(bytes == 1 || bytes == 2 || bytes == 4);
    if (bytes == 4)
        for (uint32_t i = 0; i < n; i++)
            memcpy(to + 4 * i * to_stride, from + 4 * i * from_stride, 4);
    else if (bytes == 2)
        for (uint32_t i = 0; i < n; i++)
            memcpy(to + 2 * i * to_stride, from + 2 * i * from_stride, 2);
    else
        for (uint32_t i = 0; i < n; i++)
            to[i * to_stride] = from[i * from_stride];
}

void qsa_layout_block_put(const qsa_layout *layout, uint8_t *block, uint32_t lane, const uint8_t *row)
{
    assert(lane < QSA_BLOCK_TOKENS);
    const uint32_t dim = layout->config.head_dim;
    if (layout->kv_element != QSA_ELEMENT_Q8_0) {
        uint32_t bytes = layout->row_bytes / dim;
        qsa_layout_move(bytes, row, 1, block + (size_t)lane * bytes, QSA_BLOCK_TOKENS, dim);
        return;
    }
    for (uint32_t d = 0; d < dim; d += QSA_CHUNK_DIMS, row += QSA_V_CHUNK_BYTES, block += QSA_K_CHUNK_BYTES) {
        memcpy(block + lane * sizeof(uint16_t), row, sizeof(uint16_t));
        qsa_layout_move(1, row + sizeof(uint16_t), 1, block + QSA_BLOCK_TOKENS * sizeof(uint16_t) + lane,
                        QSA_BLOCK_TOKENS, QSA_CHUNK_DIMS);
    }
}

/* Between four token rows and a K block. Element i of row t is element 4 * i + t of a plain block; a q8_0 block has,
 * per chunk, the four scales, then the quants. Both directions are written so that compilers vectorize them: counters
 * in size_t, no overlap, and one 8-byte load for four halves. */
static inline void interleave(size_t bytes, const uint8_t *restrict rows, size_t row_bytes, uint8_t *restrict block,
                              size_t n)
{
    const uint8_t *a = rows, *b = a + row_bytes, *c = b + row_bytes, *d = c + row_bytes;
    for (size_t i = 0; i < n; i++) {
        memcpy(block + 4 * i * bytes, a + i * bytes, bytes);
        memcpy(block + (4 * i + 1) * bytes, b + i * bytes, bytes);
        memcpy(block + (4 * i + 2) * bytes, c + i * bytes, bytes);
        memcpy(block + (4 * i + 3) * bytes, d + i * bytes, bytes);
    }
}

static inline void separate(size_t bytes, const uint8_t *restrict block, uint8_t *restrict rows, size_t row_bytes,
                            size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t four[4 * sizeof(float)];
        memcpy(four, block + 4 * i * bytes, 4 * bytes);
        for (size_t t = 0; t < QSA_BLOCK_TOKENS; t++)
            memcpy(rows + t * row_bytes + i * bytes, four + t * bytes, bytes);
    }
}

_Static_assert(QSA_BLOCK_TOKENS == 4, "four rows");

void qsa_layout_block_fill(const qsa_layout *layout, uint8_t *block, const uint8_t *rows)
{
    const size_t dim = layout->config.head_dim, stride = layout->row_bytes,
                 scales = QSA_BLOCK_TOKENS * sizeof(uint16_t);
    if (layout->kv_element == QSA_ELEMENT_F32)
        interleave(sizeof(float), rows, stride, block, dim);
    else if (layout->kv_element != QSA_ELEMENT_Q8_0)
        interleave(sizeof(uint16_t), rows, stride, block, dim);
    else
        for (size_t d = 0; d < dim; d += QSA_CHUNK_DIMS, rows += QSA_V_CHUNK_BYTES, block += QSA_K_CHUNK_BYTES) {
            interleave(sizeof(uint16_t), rows, stride, block, 1);
            interleave(1, rows + sizeof(uint16_t), stride, block + scales, QSA_CHUNK_DIMS);
        }
}

void qsa_layout_block_rows(const qsa_layout *layout, const uint8_t *block, uint8_t *rows)
{
    const size_t dim = layout->config.head_dim, stride = layout->row_bytes,
                 scales = QSA_BLOCK_TOKENS * sizeof(uint16_t);
    if (layout->kv_element == QSA_ELEMENT_F32)
        separate(sizeof(float), block, rows, stride, dim);
    else if (layout->kv_element != QSA_ELEMENT_Q8_0)
        separate(sizeof(uint16_t), block, rows, stride, dim);
    else
        for (size_t d = 0; d < dim; d += QSA_CHUNK_DIMS, rows += QSA_V_CHUNK_BYTES, block += QSA_K_CHUNK_BYTES) {
            separate(sizeof(uint16_t), block, rows, stride, 1);
            separate(1, block + scales, rows + sizeof(uint16_t), stride, QSA_CHUNK_DIMS);
        }
}

void qsa_layout_block_take(const qsa_layout *layout, const uint8_t *block, uint32_t lane, uint8_t *row)
{
    assert(lane < QSA_BLOCK_TOKENS);
    const uint32_t dim = layout->config.head_dim;
    if (layout->kv_element != QSA_ELEMENT_Q8_0) {
        uint32_t bytes = layout->row_bytes / dim;
        qsa_layout_move(bytes, block + (size_t)lane * bytes, QSA_BLOCK_TOKENS, row, 1, dim);
        return;
    }
    for (uint32_t d = 0; d < dim; d += QSA_CHUNK_DIMS, row += QSA_V_CHUNK_BYTES, block += QSA_K_CHUNK_BYTES) {
        memcpy(row, block + lane * sizeof(uint16_t), sizeof(uint16_t));
        qsa_layout_move(1, block + QSA_BLOCK_TOKENS * sizeof(uint16_t) + lane, QSA_BLOCK_TOKENS, row + sizeof(uint16_t),
                        1, QSA_CHUNK_DIMS);
    }
}
