/* SPDX-License-Identifier: Apache-2.0 */
/* The row of a query and kv head, as addresses. */
#include "device/host/host.h"

/* Where the pages of one layer and kv head begin. */
typedef struct head_pages {
    const uint8_t *k, *v;
    size_t page_stride; /* V's is K's */
    const qsa_layout *layout;
} head_pages;

static head_pages pages_of_head(const qsa_host_store *store, uint32_t layer, uint32_t kv_head)
{
    const qsa_layout *layout = store->base.layout;
    return (head_pages){
        .k = qsa_host_page(store, QSA_ARENA_K, layer, 0) + qsa_layout_k_block(layout, kv_head, 0),
        .v = qsa_host_page(store, QSA_ARENA_V, layer, 0) + qsa_layout_v_token(layout, kv_head, 0),
        .page_stride = (size_t)layout->page_stride[QSA_ARENA_V],
        .layout = layout,
    };
}

/* Appends `count` tokens that lie in consecutive slots of one page. */
static void add_tokens(const head_pages *pages, qsa_place place, uint32_t count, qsa_row_view *row)
{
    const uint8_t *k = pages->k + place.page * pages->page_stride, *v = pages->v + place.page * pages->page_stride;
    for (uint32_t s = place.slot; s < place.slot + count; s++) {
        const void *block = k + s / QSA_BLOCK_TOKENS * (size_t)pages->layout->block_bytes;
        if (row->n_blocks == 0 || row->blocks[row->n_blocks - 1] != block)
            row->blocks[row->n_blocks++] = block;
        uint32_t lane = (row->n_blocks - 1) * QSA_BLOCK_TOKENS + s % QSA_BLOCK_TOKENS;
        row->compact = row->compact && lane == row->n;
        row->lanes[row->n] = lane;
        row->v[row->n++] = v + s * (size_t)pages->layout->row_bytes;
    }
}

/* The same for a group of whole blocks: most rows are nothing else. */
static void add_blocks(const head_pages *pages, qsa_place place, uint32_t count, qsa_row_view *row)
{
    const size_t block_bytes = pages->layout->block_bytes, row_bytes = pages->layout->row_bytes;
    const uint8_t *k = pages->k + place.page * pages->page_stride + place.slot / QSA_BLOCK_TOKENS * block_bytes;
    const uint8_t *v = pages->v + place.page * pages->page_stride + place.slot * row_bytes;
    for (uint32_t t = 0; t < count; t += QSA_BLOCK_TOKENS) {
        row->blocks[row->n_blocks++] = k + t / QSA_BLOCK_TOKENS * block_bytes;
        for (uint32_t i = 0; i < QSA_BLOCK_TOKENS; i++)
            row->v[row->n + i] = v + (t + i) * row_bytes;
        row->n += QSA_BLOCK_TOKENS;
    }
}

void qsa_host_row(const qsa_host_store *store, const qsa_batch *batch, uint32_t layer, uint32_t token, uint32_t kv_head,
                  uint32_t begin, uint32_t end, qsa_row_view *row)
{
    const qsa_batch_entry *entry = qsa_batch_entry_of(batch, token);
    const qsa_query *query = &batch->queries[token];
    const uint32_t ratio = store->base.layout->ratio, *groups = store->selected + (size_t)token * store->k;
    const uint32_t n_groups = store->n_selected[token];
    const head_pages pages = pages_of_head(store, layer, kv_head);
    void (*add_group)(const head_pages *, qsa_place, uint32_t, qsa_row_view *) =
        ratio % QSA_BLOCK_TOKENS == 0 ? add_blocks : add_tokens;
    row->n = row->n_blocks = 0;
    row->compact = true;
    for (uint32_t i = begin; i < end && i < n_groups; i++)
        add_group(&pages, qsa_batch_place(entry, (uint64_t)groups[i] * ratio), ratio, row);
    if (end > n_groups && query->n_tail > 0)
        add_tokens(&pages, qsa_batch_place(entry, query->tail), query->n_tail, row);
}
