/* SPDX-License-Identifier: Apache-2.0 */
/* Phases 1 and 2: scores and membership.
 *
 * With at least as many queries as parts a part owns whole queries and its selection is final. With fewer, each query's
 * pages are cut into ranges, whose candidates phase 2 merges. */
#include "device/host/host.h"
#include "index/pool.h"

static bool drops_something(const qsa_host_store *store, const qsa_query *query)
{
    return query->end_group - query->first_group > store->k;
}

/* Below the cut every candidate is a member. */
static void choose_all(qsa_host_store *store, uint32_t token, const qsa_query *query)
{
    uint32_t *selected = store->selected + (size_t)token * store->k;
    store->n_selected[token] = (uint32_t)(query->end_group - query->first_group);
    for (uint32_t i = 0; i < store->n_selected[token]; i++)
        selected[i] = (uint32_t)query->first_group + i;
}

static void load_query(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t token,
                       float *out)
{
    const qsa_store *base = &store->base;
    const qsa_config *config = base->config;
    const qsa_strided *in = &io->tensors.index_q;
    const uint32_t pairs = base->rotary->pairs;
    const float *angles = qsa_batch_cos_sin(batch, token, pairs);
    const qsa_norm_rotate_call call = {.x = in->data + token * in->token_stride,
                                       .stride = in->head_stride,
                                       .heads = config->index_heads,
                                       .dim = config->index_dim,
                                       .weight = qsa_store_weights(base, io->layer).index_q,
                                       .eps = config->eps,
                                       .bf16 = config->profile == QSA_PROFILE_BF16,
                                       .pairs = pairs,
                                       .cos = angles,
                                       .sin = angles + pairs,
                                       .out = out};
    qsa_index_norm_rotate(base->kernels, &call);
}

/* Pages of a sequence, counted in its table. */
typedef struct page_range {
    uint64_t begin, end;
} page_range;

static uint64_t slot_groups(const qsa_host_store *store, const qsa_batch_entry *entry)
{
    return entry->first_slot / store->base.layout->ratio;
}

static page_range pages_of(const qsa_host_store *store, const qsa_batch_entry *entry, uint64_t first_group,
                           uint64_t end_group)
{
    uint64_t before = slot_groups(store, entry), per_page = store->base.layout->page_groups;
    return (page_range){(first_group + before) / per_page, (end_group + before + per_page - 1) / per_page};
}

/* Offers the candidates among the groups of n tiles from `page` on; scores [n][page_groups]. */
static void offer_tiles(const qsa_host_store *store, const qsa_batch_entry *entry, const qsa_query *query,
                        uint64_t page, uint32_t n, const float *scores, qsa_selection *selection)
{
    const uint64_t per_page = store->base.layout->page_groups, before = slot_groups(store, entry);
    const uint64_t first = page * per_page, last = first + n * per_page; /* counted from the first page */
    uint64_t begin = query->first_group + before, end = query->end_group + before;
    begin = begin > first ? begin : first;
    end = end < last ? end : last;
    if (begin < end)
        qsa_selection_offer(selection, scores + (begin - first), (uint32_t)(begin - before), (uint32_t)(end - begin));
}

static qsa_candidate *buffer_of(const qsa_host_store *store, const qsa_part *part, uint32_t i)
{
    return part->candidates + (size_t)i * store->capacity;
}

static void begin_selection(const qsa_host_store *store, const qsa_part *part, uint32_t i, qsa_selection *selection)
{
    qsa_selection_begin(selection, store->base.kernels, buffer_of(store, part, i), store->capacity, store->k);
}

/* Scans pages for the queries first .. first + n - 1 of one entry, all of which drop something. */
static void scan_pages(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                       uint32_t first, uint32_t n, page_range pages, qsa_selection *selections)
{
    const qsa_batch_entry *entry = qsa_batch_entry_of(batch, first);
    const qsa_config *config = store->base.config;
    const qsa_layout *layout = store->base.layout;
    const uint32_t per_page = layout->page_groups, width = config->index_heads * config->index_dim;
    for (uint32_t i = 0; i < n; i++)
        load_query(store, batch, io, first + i, part->queries + (size_t)i * width);
    const uint32_t most = QSA_SCAN_QUERIES * QSA_SCAN_TILES / n;
    for (uint64_t page = pages.begin; page < pages.end; page += most) {
        const void *tiles[QSA_SCAN_QUERIES * QSA_SCAN_TILES];
        const uint32_t n_tiles = pages.end - page < most ? (uint32_t)(pages.end - page) : most;
        for (uint32_t t = 0; t < n_tiles; t++)
            tiles[t] = qsa_host_page(store, QSA_ARENA_POOLED, io->layer, *qsa_table_at(&entry->table, page + t));
        const qsa_score_call call = {part->queries, n,        config->index_heads, config->index_dim, tiles,
                                     n_tiles,       per_page, part->scores};
        store->base.kernels->score(&call, layout->index_element);
        for (uint32_t i = 0; i < n; i++)
            offer_tiles(store, entry, &batch->queries[first + i], page, n_tiles,
                        part->scores + (size_t)i * n_tiles * per_page, &selections[i]);
    }
}

static void emit(qsa_host_store *store, uint32_t token, const qsa_selection *selection)
{
    uint32_t *selected = store->selected + (size_t)token * store->k;
    store->n_selected[token] = selection->count;
    for (uint32_t i = 0; i < selection->count; i++)
        selected[i] = selection->buffer[i].group;
}

/* Queries of the entry from `token` on, before `end`, that share the load of a tile: in a window, groups leave as
 * others come, so that a query that drops something can be followed by one that does not. */
static uint32_t count_dropping(const qsa_host_store *store, const qsa_batch *batch, const qsa_batch_entry *entry,
                               uint32_t token, uint32_t end)
{
    const uint32_t entry_end = entry->first_token + entry->tokens;
    uint32_t n = 0;
    end = end < entry_end ? end : entry_end;
    while (token + n < end && n < QSA_SCAN_QUERIES && drops_something(store, &batch->queries[token + n]))
        n++;
    return n;
}

/* Whole queries [begin, end) of the step, in tiles that stay within an entry. */
static uint64_t scan_queries(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                             uint32_t begin, uint32_t end)
{
    uint64_t scored = 0;
    qsa_selection selections[QSA_SCAN_QUERIES];
    for (uint32_t token = begin; token < end;) {
        const qsa_query *query = &batch->queries[token];
        if (!drops_something(store, query)) {
            choose_all(store, token++, query);
            continue;
        }
        const qsa_batch_entry *entry = qsa_batch_entry_of(batch, token);
        const uint32_t n = count_dropping(store, batch, entry, token, end);
        for (uint32_t i = 0; i < n; i++)
            begin_selection(store, part, i, &selections[i]);
        scan_pages(store, batch, io, part, token, n, pages_of(store, entry, query->first_group, query[n - 1].end_group),
                   selections);
        for (uint32_t i = 0; i < n; i++) {
            scored += query[i].end_group - query[i].first_group;
            qsa_selection_shrink(&selections[i]);
            emit(store, token + i, &selections[i]);
        }
        token += n;
    }
    return scored;
}

/* Ranges per query when there are fewer queries than parts; their number is that of the phases' units. */
static uint32_t ranges_per_query(const qsa_batch *batch, uint32_t parts)
{
    return (parts + batch->n_tokens - 1) / batch->n_tokens;
}

static qsa_ranges ranges_of(const qsa_host_store *store, uint32_t token, uint32_t ranges)
{
    return (qsa_ranges){.kernels = store->base.kernels,
                        .k = store->k,
                        .n = ranges,
                        .ranges = store->ranges + (size_t)token * ranges,
                        .few = store->few + (size_t)token * ranges * qsa_few_limit(store->k, ranges)};
}

/* The part's i-th range, which is the unit-th of the step. */
static uint64_t scan_range(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                           uint32_t i, uint32_t unit, uint32_t n_ranges)
{
    const uint32_t token = unit / n_ranges, range = unit % n_ranges;
    const qsa_query *query = &batch->queries[token];
    if (!drops_something(store, query))
        return 0;
    page_range all = pages_of(store, qsa_batch_entry_of(batch, token), query->first_group, query->end_group), mine;
    qsa_share(all.end - all.begin, range, n_ranges, &mine.begin, &mine.end);
    mine.begin += all.begin;
    mine.end += all.begin;
    qsa_selection selection;
    begin_selection(store, part, i, &selection);
    scan_pages(store, batch, io, part, token, 1, mine, &selection);
    const qsa_ranges ranges = ranges_of(store, token, n_ranges);
    qsa_ranges_leave(&ranges, range, &selection, buffer_of(store, part, QSA_RANGES_LIMIT));
    return range == 0 ? query->end_group - query->first_group : 0;
}

void qsa_host_scan(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part, uint32_t parts)
{
    uint64_t begin, end, scored = 0;
    if (batch->n_tokens >= parts) {
        while (qsa_rests_take(store, QSA_HELPED_SCAN, batch->n_tokens, part, parts, QSA_SCAN_QUERIES, &begin, &end))
            scored += scan_queries(store, batch, io, &store->parts[part], (uint32_t)begin, (uint32_t)end);
    } else {
        uint32_t ranges = ranges_per_query(batch, parts);
        qsa_share((uint64_t)batch->n_tokens * ranges, part, parts, &begin, &end);
        for (uint64_t unit = begin; unit < end; unit++)
            scored +=
                scan_range(store, batch, io, &store->parts[part], (uint32_t)(unit - begin), (uint32_t)unit, ranges);
    }
    atomic_fetch_add_explicit(&store->base.work->groups_scored, scored, memory_order_relaxed);
}

static void merge(qsa_host_store *store, const qsa_batch *batch, const qsa_part *part, uint32_t token,
                  uint32_t n_ranges)
{
    const qsa_query *query = &batch->queries[token];
    if (!drops_something(store, query)) {
        choose_all(store, token, query);
        return;
    }
    const qsa_ranges ranges = ranges_of(store, token, n_ranges);
    store->n_selected[token] =
        qsa_ranges_merge(&ranges, buffer_of(store, part, QSA_RANGES_LIMIT), store->selected + (size_t)token * store->k);
}

void qsa_host_select(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts)
{
    (void)io;
    if (batch->n_tokens >= parts)
        return; /* phase 1 chose */
    uint64_t begin, end;
    qsa_share(batch->n_tokens, part, parts, &begin, &end);
    for (uint64_t token = begin; token < end; token++)
        merge(store, batch, &store->parts[part], (uint32_t)token, ranges_per_query(batch, parts));
}
