/* SPDX-License-Identifier: Apache-2.0 */
/* The selected tokens of a query and kv head, as addresses. */
#include "device/host/phases.h"

#include <assert.h>

/* K and V of one layer and kv head. */
typedef struct head_pages {
    const uint8_t *kv; /* of page 0 */
    size_t page_stride;
    const qsa_layout *layout;
    uint32_t head;
} head_pages;

static head_pages pages_of_head(const qsa_host_store *store, uint32_t layer, uint32_t kv_head)
{
    const qsa_layout *layout = store->base.layout;
    return (head_pages){qsa_host_page(store, QSA_ARENA_KV, layer, 0), (size_t)layout->page_stride[QSA_ARENA_KV], layout,
                        kv_head};
}

/* Appends `count` tokens that lie in consecutive slots of one page. */
static void add_tokens(const head_pages *pages, qsa_place place, uint32_t count, qsa_addresses *selected)
{
    assert(count > 0 && place.slot + count <= QSA_PAGE_TOKENS);
    const uint8_t *page = pages->kv + place.page * pages->page_stride;
    for (uint32_t s = place.slot; s < place.slot + count; s++) {
        const void *block = page + qsa_layout_k_block(pages->layout, pages->head, s);
        if (selected->n_blocks == 0 || selected->blocks[selected->n_blocks - 1] != block)
            selected->blocks[selected->n_blocks++] = block;
        uint32_t lane = (selected->n_blocks - 1) * QSA_BLOCK_TOKENS + s % QSA_BLOCK_TOKENS;
        selected->compact = selected->compact && lane == selected->n;
        selected->lanes[selected->n] = lane;
        selected->v[selected->n++] = page + qsa_layout_v_token(pages->layout, pages->head, s);
    }
}

/* Groups of whole blocks: most selections are nothing else. */
static void add_blocks(const head_pages *pages, const qsa_batch_entry *entry, const uint32_t *groups, uint32_t n,
                       qsa_addresses *selected)
{
    const qsa_layout *layout = pages->layout;
    const size_t row_bytes = layout->row_bytes;
    const void **blocks = selected->blocks, **v = selected->v;
    for (uint32_t i = 0; i < n; i++) {
        const qsa_place place = qsa_batch_place(entry, (uint64_t)groups[i] * layout->config.ratio);
        const uint8_t *page = pages->kv + place.page * pages->page_stride;
        for (uint32_t s = place.slot; s < place.slot + layout->config.ratio; s += QSA_BLOCK_TOKENS) {
            const uint8_t *values = page + qsa_layout_v_token(layout, pages->head, s);
            *blocks++ = page + qsa_layout_k_block(layout, pages->head, s);
            for (uint32_t j = 0; j < QSA_BLOCK_TOKENS; j++)
                *v++ = values + j * row_bytes;
        }
    }
    selected->n_blocks = (uint32_t)(blocks - selected->blocks);
    selected->n = (uint32_t)(v - selected->v);
}

void qsa_host_addresses(const qsa_host_context *c, uint32_t token, uint32_t kv_head, uint32_t begin, uint32_t end,
                        qsa_addresses *out)
{
    assert(token < c->batch->n_tokens && kv_head < c->store->base.config->kv_heads);
    assert(begin <= end && end <= c->store->n_selected[token] + 1);
    const qsa_batch_entry *entry = qsa_batch_entry_of(c->batch, token);
    const qsa_query *query = &c->batch->queries[token];
    const uint32_t ratio = c->store->base.layout->config.ratio,
                   *groups = c->store->selected + (size_t)token * c->store->k;
    const uint32_t n_groups = c->store->n_selected[token], last = end < n_groups ? end : n_groups;
    const head_pages pages = pages_of_head(c->store, c->io->layer, kv_head);
    out->n = out->n_blocks = 0;
    out->compact = true;
    if (ratio % QSA_BLOCK_TOKENS == 0 && begin < last)
        add_blocks(&pages, entry, groups + begin, last - begin, out);
    else
        for (uint32_t i = begin; i < last; i++)
            add_tokens(&pages, qsa_batch_place(entry, (uint64_t)groups[i] * ratio), ratio, out);
    if (end > n_groups && query->n_tail > 0)
        add_tokens(&pages, qsa_batch_place(entry, query->tail), query->n_tail, out);
}
