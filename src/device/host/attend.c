/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 3: attention. The unit of work is (query, kv head, block of its query heads), in order, so that a part goes
 * through neighbouring queries and finds their K and V in cache. */
#include "device/host/host.h"

static uint32_t ceil_divide(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* Blocks of query heads per kv head: as few as working memory allows, as many as keep all parts busy. */
static uint32_t head_blocks(const qsa_config *config, uint32_t n_tokens, uint32_t parts)
{
    uint32_t shared = config->q_heads / config->kv_heads;
    uint32_t blocks = ceil_divide(shared, QSA_HEADS_AT_ONCE);
    uint32_t wanted = ceil_divide(parts, (uint64_t)n_tokens * config->kv_heads);
    if (wanted > shared)
        wanted = shared;
    return wanted > blocks ? wanted : blocks;
}

static void load_heads(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t token,
                       uint32_t first_head, uint32_t heads, float *q)
{
    const qsa_store *base = &store->base;
    const qsa_config *config = base->config;
    const qsa_strided *in = &io->tensors.q;
    const uint32_t pairs = base->rotary->pairs;
    const float *table = qsa_batch_cos_sin(batch, token, pairs), c = qsa_query_scale(config->head_dim);
    base->kernels->norm_rotate(in->data + token * in->token_stride + first_head * in->head_stride, in->head_stride,
                               heads, config->head_dim, qsa_store_weights(base, io->layer).q, config->eps, pairs, table,
                               table + pairs, false, q);
    for (uint32_t i = 0; i < heads * config->head_dim; i++)
        q[i] *= c;
}

/* Query heads [first, first + heads) of a token over the row that was gathered. */
static void attend_unit(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                        uint32_t token, uint32_t first, uint32_t heads)
{
    const qsa_output *out = &io->out;
    load_heads(store, batch, io, token, first, heads, part->attend.q);
    qsa_attend_heads(store->base.kernels, store->base.layout->kv_element, heads, store->base.config->head_dim,
                     &part->attend, out->data + token * out->token_stride + first * out->head_stride, out->head_stride);
}

/* ---- the row of a query, as addresses ---- */

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

static void gather_row(const qsa_host_store *store, const qsa_batch *batch, uint32_t layer, uint32_t token,
                       uint32_t kv_head, qsa_row_view *row)
{
    const qsa_batch_entry *entry = qsa_batch_entry_of(batch, token);
    const qsa_query *query = &batch->queries[token];
    const uint32_t ratio = store->base.layout->ratio, *groups = store->selected + (size_t)token * store->k;
    const head_pages pages = pages_of_head(store, layer, kv_head);
    void (*add_group)(const head_pages *, qsa_place, uint32_t, qsa_row_view *) =
        ratio % QSA_BLOCK_TOKENS == 0 ? add_blocks : add_tokens;
    row->n = row->n_blocks = 0;
    row->compact = true;
    for (uint32_t i = 0; i < store->n_selected[token]; i++)
        add_group(&pages, qsa_batch_place(entry, (uint64_t)groups[i] * ratio), ratio, row);
    if (query->n_tail > 0)
        add_tokens(&pages, qsa_batch_place(entry, query->tail), query->n_tail, row);
}

/* Units of the phase and what they are: token, kv head and block of query heads, in this order. */
typedef struct attend_plan {
    uint32_t kv_heads, shared, blocks;
    uint64_t units;
} attend_plan;

static attend_plan plan_units(const qsa_config *config, uint32_t n_tokens, uint32_t parts)
{
    attend_plan plan = {.kv_heads = config->kv_heads, .shared = config->q_heads / config->kv_heads};
    plan.blocks = head_blocks(config, n_tokens, parts);
    plan.units = (uint64_t)n_tokens * plan.kv_heads * plan.blocks;
    return plan;
}

/* What a part has done. */
typedef struct attend_work {
    uint64_t rows, chosen;
    uint64_t gathered; /* token and kv head of the row that its working memory holds, as a number */
} attend_work;

static void attend_one(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                       const attend_plan *plan, uint64_t unit, attend_work *work)
{
    const uint32_t block = (uint32_t)(unit % plan->blocks), kv_head = (uint32_t)(unit / plan->blocks % plan->kv_heads);
    const uint32_t token = (uint32_t)(unit / plan->blocks / plan->kv_heads);
    if (unit / plan->blocks != work->gathered)
        gather_row(store, batch, io->layer, token, kv_head, &part->attend.row);
    work->gathered = unit / plan->blocks;
    uint64_t first, last;
    qsa_share(plan->shared, block, plan->blocks, &first, &last);
    attend_unit(store, batch, io, part, token, kv_head * plan->shared + (uint32_t)first, (uint32_t)(last - first));
    if (block == 0) {
        work->rows += part->attend.row.n;
        work->chosen += kv_head == 0 ? store->n_selected[token] : 0;
    }
}

void qsa_host_attend(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts)
{
    const attend_plan plan = plan_units(store->base.config, batch->n_tokens, parts);
    attend_work work = {.gathered = UINT64_MAX};
    uint64_t begin, end;
    while (qsa_rests_take(store, QSA_HELPED_ATTEND, plan.units, part, parts, 1, &begin, &end))
        attend_one(store, batch, io, &store->parts[part], &plan, begin, &work);
    atomic_fetch_add_explicit(&store->base.work->k_rows_read, work.rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->base.work->groups_chosen, work.chosen, memory_order_relaxed);
}
