/* SPDX-License-Identifier: Apache-2.0 */
/* Converts between pages and the value order of the file, which has no blocks and no tiles. */
#include "snapshot/format.h"

#include <assert.h>
#include <string.h>

const uint32_t qsa_tensor_tags[QSA_TENSOR_COUNT] = {QSA_TAG_K, QSA_TAG_V, QSA_TAG_RAW, QSA_TAG_POOLED};

uint64_t qsa_extent_bytes(const qsa_layout *layout, qsa_tensor tensor, const qsa_file_extent *extent)
{
    uint64_t rows = extent->end - extent->begin;
    switch (qsa_tensor_tags[tensor]) {
    case QSA_TAG_RAW:
        return rows * layout->config.index_dim * layout->index_bytes;
    case QSA_TAG_POOLED:
        return (uint64_t)qsa_extent_groups(extent, layout->config.ratio) * layout->config.index_dim *
               layout->index_bytes;
    default:
        return rows * layout->config.kv_heads * layout->row_bytes;
    }
}

uint64_t qsa_extent_limit(const qsa_layout *layout)
{
    const qsa_file_extent whole = {0, QSA_PAGE_TOKENS};
    uint64_t most = 0;
    for (int tensor = 0; tensor < QSA_TENSOR_COUNT; tensor++)
        if (qsa_extent_bytes(layout, tensor, &whole) > most)
            most = qsa_extent_bytes(layout, tensor, &whole);
    return most;
}

static void move_bytes(uint8_t *page, uint8_t *rows, size_t bytes, bool pack)
{
    if (pack)
        memcpy(rows, page, bytes);
    else
        memcpy(page, rows, bytes);
}

/* One kv head of K, whole blocks at a time; `pack`: from the page to rows, otherwise back. */
static void move_k(const qsa_layout *layout, uint32_t head, uint8_t *page, const qsa_file_extent *extent, uint8_t *rows,
                   bool pack)
{
    for (uint32_t slot = extent->begin, n; slot < extent->end; slot += n, rows += (size_t)n * layout->row_bytes) {
        uint8_t *block = page + qsa_layout_k_block(layout, head, slot);
        const uint32_t lane = slot % QSA_BLOCK_TOKENS;
        n = lane == 0 && slot + QSA_BLOCK_TOKENS <= extent->end ? QSA_BLOCK_TOKENS : 1;
        if (n > 1 && pack)
            qsa_layout_block_rows(layout, block, rows);
        else if (n > 1)
            qsa_layout_block_fill(layout, block, rows);
        else if (pack)
            qsa_layout_block_take(layout, block, lane, rows);
        else
            qsa_layout_block_put(layout, block, lane, rows);
    }
}

/* The same for V: rows of one block at a time. */
static void move_v(const qsa_layout *layout, uint32_t head, uint8_t *page, const qsa_file_extent *extent, uint8_t *rows,
                   bool pack)
{
    for (uint32_t slot = extent->begin, n; slot < extent->end; slot += n) {
        n = QSA_BLOCK_TOKENS - slot % QSA_BLOCK_TOKENS;
        n = extent->end - slot < n ? extent->end - slot : n;
        move_bytes(page + qsa_layout_v_token(layout, head, slot),
                   rows + (size_t)(slot - extent->begin) * layout->row_bytes, (size_t)n * layout->row_bytes, pack);
    }
}

static void move_kv(const qsa_layout *layout, uint32_t tag, uint8_t *page, const qsa_file_extent *extent, uint8_t *rows,
                    bool pack)
{
    const size_t head_bytes = (size_t)(extent->end - extent->begin) * layout->row_bytes;
    for (uint32_t head = 0; head < layout->config.kv_heads; head++, rows += head_bytes)
        (tag == QSA_TAG_K ? move_k : move_v)(layout, head, page, extent, rows, pack);
}

static void move_pooled(const qsa_layout *layout, uint8_t *tile, const qsa_file_extent *extent, uint8_t *rows,
                        bool pack)
{
    const uint32_t bytes = layout->index_bytes, first = extent->begin / layout->config.ratio;
    const uint32_t groups = qsa_extent_groups(extent, layout->config.ratio);
    for (uint32_t g = 0; g < groups; g++) {
        uint8_t *lane = tile + (size_t)(first + g) * bytes, *row = rows + (size_t)g * layout->config.index_dim * bytes;
        if (pack)
            qsa_layout_move(bytes, lane, layout->page_groups, row, 1, layout->config.index_dim);
        else
            qsa_layout_move(bytes, row, 1, lane, layout->page_groups, layout->config.index_dim);
    }
}

static void move_extent(const qsa_layout *layout, qsa_tensor tensor, uint8_t *page, const qsa_file_extent *extent,
                        uint8_t *rows, bool pack)
{
    assert((unsigned)tensor < QSA_TENSOR_COUNT && extent->begin <= extent->end && extent->end <= QSA_PAGE_TOKENS);
    uint32_t tag = qsa_tensor_tags[tensor];
    if (tag == QSA_TAG_POOLED)
        move_pooled(layout, page, extent, rows, pack);
    else if (tag == QSA_TAG_RAW)
        move_bytes(page + qsa_layout_raw_token(layout, extent->begin) * layout->index_bytes, rows,
                   (size_t)qsa_extent_bytes(layout, tensor, extent), pack);
    else
        move_kv(layout, tag, page, extent, rows, pack);
}

qsa_status qsa_extent_pack(const qsa_cache *cache, uint32_t layer, qsa_tensor tensor, uint32_t page,
                           const qsa_file_extent *extent, uint8_t *out)
{
    uint8_t *at;
    QSA_TRY(qsa_page_view(cache, qsa_tensor_arena(tensor), layer, page, &at));
    move_extent(&cache->layout, tensor, at, extent, out, true);
    return QSA_OK;
}

qsa_status qsa_extent_unpack(qsa_cache *cache, uint32_t layer, qsa_tensor tensor, uint32_t page,
                             const qsa_file_extent *extent, const uint8_t *in)
{
    uint8_t *at;
    QSA_TRY(qsa_page_view(cache, qsa_tensor_arena(tensor), layer, page, &at));
    move_extent(&cache->layout, tensor, at, extent, (uint8_t *)(uintptr_t)in, false);
    return cache->store->operations->put(cache->store, qsa_tensor_arena(tensor), layer, page);
}
