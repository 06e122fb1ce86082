/* SPDX-License-Identifier: Apache-2.0 */
/* Phases 1 and 2: index scores and selection.
 *
 * With at least as many queries as parts a task of phase 1 is a query, and its selection is final. With fewer, a task
 * is a range of a query's pages; phase 2 merges the candidates of its ranges. */
#include "device/host/phases.h"

#include "index/pool.h"

#include <assert.h>

static bool drops_something(const qsa_host_context *c, const qsa_query *query)
{
    return query->end_group - query->first_group > c->store->k;
}

/* Below the cut every candidate is a member. */
static void choose_all(const qsa_host_context *c, uint32_t token)
{
    const qsa_query *query = &c->batch->queries[token];
    assert(!drops_something(c, query));
    uint32_t *selected = c->store->selected + (size_t)token * c->store->k;
    const uint32_t n = (uint32_t)(query->end_group - query->first_group);
    for (uint32_t i = 0; i < n; i++)
        selected[i] = (uint32_t)query->first_group + i;
    c->store->n_selected[token] = n;
}

static void load_query(const qsa_host_context *c, uint32_t token, float *out)
{
    const qsa_store *base = &c->store->base;
    const qsa_config *config = base->config;
    const qsa_strided *in = &c->io->tensors.index_q;
    const uint32_t pairs = base->rotary->pairs;
    const float *angles = qsa_batch_cos_sin(c->batch, token, pairs);
    const qsa_norm_rotate_call call = {.x = in->data + token * in->token_stride,
                                       .stride = in->head_stride,
                                       .heads = config->index_heads,
                                       .dim = config->index_dim,
                                       .weight = qsa_store_weights(base, c->io->layer).index_q,
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

static uint64_t slot_groups(const qsa_host_context *c, const qsa_batch_entry *entry)
{
    return entry->first_slot / c->store->base.layout->config.ratio;
}

static page_range pages_of(const qsa_host_context *c, const qsa_batch_entry *entry, uint64_t first_group,
                           uint64_t end_group)
{
    assert(first_group <= end_group);
    uint64_t before = slot_groups(c, entry), per_page = c->store->base.layout->page_groups;
    return (page_range){(first_group + before) / per_page, (end_group + before + per_page - 1) / per_page};
}

/* Offers the candidates among the groups of n tiles from `page` on; scores [n][page_groups]. */
static void offer_tiles(const qsa_host_context *c, const qsa_batch_entry *entry, const qsa_query *query, uint64_t page,
                        uint32_t n, const float *scores, qsa_selection *selection)
{
    const uint64_t per_page = c->store->base.layout->page_groups, before = slot_groups(c, entry);
    const uint64_t first = page * per_page, last = first + n * per_page; /* counted from the first page */
    uint64_t begin = query->first_group + before, end = query->end_group + before;
    begin = begin > first ? begin : first;
    end = end < last ? end : last;
    if (begin < end)
        qsa_selection_offer(selection, scores + (begin - first), (uint32_t)(begin - before), (uint32_t)(end - begin));
}

static qsa_candidate *buffer_of(const qsa_host_context *c, uint32_t i)
{
    assert(i < QSA_SCAN_QUERIES);
    return c->scratch->candidates + (size_t)i * c->store->capacity;
}

static void begin_selection(const qsa_host_context *c, uint32_t i, qsa_selection *selection)
{
    qsa_selection_begin(selection, c->store->base.kernels, buffer_of(c, i), c->store->capacity, c->store->k);
}

/* Scans pages for the queries first .. first + n - 1 of one entry, all of which drop something. */
static void scan_pages(const qsa_host_context *c, uint32_t first, uint32_t n, page_range pages,
                       qsa_selection *selections)
{
    assert(n > 0 && n <= QSA_SCAN_QUERIES && pages.begin <= pages.end);
    const qsa_batch_entry *entry = qsa_batch_entry_of(c->batch, first);
    const qsa_config *config = c->store->base.config;
    const qsa_layout *layout = c->store->base.layout;
    const uint32_t per_page = layout->page_groups, width = config->index_heads * config->index_dim;
    for (uint32_t i = 0; i < n; i++)
        load_query(c, first + i, c->scratch->queries + (size_t)i * width);
    const uint32_t most = QSA_SCAN_QUERIES * QSA_SCAN_TILES / n;
    for (uint64_t page = pages.begin; page < pages.end; page += most) {
        const void *tiles[QSA_SCAN_QUERIES * QSA_SCAN_TILES];
        const uint32_t n_tiles = pages.end - page < most ? (uint32_t)(pages.end - page) : most;
        for (uint32_t t = 0; t < n_tiles; t++)
            tiles[t] = qsa_host_page(c->store, QSA_ARENA_POOLED, c->io->layer, *qsa_table_at(&entry->table, page + t));
        const qsa_score_call call = {
            c->scratch->queries, n, config->index_heads, config->index_dim, tiles, n_tiles, per_page,
            c->scratch->scores};
        c->store->base.kernels->score(&call, layout->index_element);
        for (uint32_t i = 0; i < n; i++)
            offer_tiles(c, entry, &c->batch->queries[first + i], page, n_tiles,
                        c->scratch->scores + (size_t)i * n_tiles * per_page, &selections[i]);
    }
}

static void emit(const qsa_host_context *c, uint32_t token, const qsa_selection *selection)
{
    uint32_t *selected = c->store->selected + (size_t)token * c->store->k;
    assert(selection->count <= c->store->k);
    c->store->n_selected[token] = selection->count;
    for (uint32_t i = 0; i < selection->count; i++)
        selected[i] = selection->buffer[i].group;
}

/* Queries of the entry from `token` on, before `end`, that share the load of a tile: in a window, groups leave as
 * others come, so that a query that drops something can be followed by one that does not. */
static uint32_t count_dropping(const qsa_host_context *c, const qsa_batch_entry *entry, uint32_t token, uint32_t end)
{
    const uint32_t entry_end = entry->first_token + entry->tokens;
    uint32_t n = 0;
    end = end < entry_end ? end : entry_end;
    while (token + n < end && n < QSA_SCAN_QUERIES && drops_something(c, &c->batch->queries[token + n]))
        n++;
    return n;
}

/* Whole queries [begin, end) of the step, in tiles that stay within an entry. */
static uint64_t scan_queries(const qsa_host_context *c, uint32_t begin, uint32_t end)
{
    uint64_t scored = 0;
    qsa_selection selections[QSA_SCAN_QUERIES];
    for (uint32_t token = begin; token < end;) {
        const qsa_query *query = &c->batch->queries[token];
        if (!drops_something(c, query)) {
            choose_all(c, token++);
            continue;
        }
        const qsa_batch_entry *entry = qsa_batch_entry_of(c->batch, token);
        const uint32_t n = count_dropping(c, entry, token, end);
        for (uint32_t i = 0; i < n; i++)
            begin_selection(c, i, &selections[i]);
        scan_pages(c, token, n, pages_of(c, entry, query->first_group, query[n - 1].end_group), selections);
        for (uint32_t i = 0; i < n; i++) {
            scored += query[i].end_group - query[i].first_group;
            qsa_selection_shrink(&selections[i]);
            emit(c, token + i, &selections[i]);
        }
        token += n;
    }
    return scored;
}

/* Ranges per query where there are fewer queries than parts. */
static uint32_t ranges_per_query(const qsa_host_context *c)
{
    assert(c->batch->n_tokens > 0 && c->batch->n_tokens < c->parts);
    return (c->parts + c->batch->n_tokens - 1) / c->batch->n_tokens;
}

static qsa_ranges ranges_of(const qsa_host_context *c, uint32_t token)
{
    assert(token < c->batch->n_tokens);
    const qsa_host_store *store = c->store;
    const uint32_t n = ranges_per_query(c);
    return (qsa_ranges){.kernels = store->base.kernels,
                        .k = store->k,
                        .n = n,
                        .ranges = store->ranges + (size_t)token * n,
                        .few = store->few + (size_t)token * n * qsa_few_limit(store->k, n)};
}

/* The part's i-th task where a task is a range. Returns how many groups the query has, once for all its ranges. */
static uint64_t scan_range(const qsa_host_context *c, uint32_t i, uint32_t task)
{
    const uint32_t n_ranges = ranges_per_query(c), token = task / n_ranges, range = task % n_ranges;
    const qsa_query *query = &c->batch->queries[token];
    if (!drops_something(c, query))
        return 0;
    assert(i < QSA_RANGES_LIMIT);
    page_range all = pages_of(c, qsa_batch_entry_of(c->batch, token), query->first_group, query->end_group), own;
    qsa_share(all.end - all.begin, range, n_ranges, &own.begin, &own.end);
    own.begin += all.begin;
    own.end += all.begin;
    qsa_selection selection;
    begin_selection(c, i, &selection);
    scan_pages(c, token, 1, own, &selection);
    const qsa_ranges ranges = ranges_of(c, token);
    qsa_ranges_leave(&ranges, range, &selection, buffer_of(c, QSA_RANGES_LIMIT));
    return range == 0 ? query->end_group - query->first_group : 0;
}

/* A range is not stolen: its candidates stay in the scratch of its part until phase 2. */
void qsa_host_scan(const qsa_host_context *c)
{
    uint64_t begin, end, scored = 0;
    if (c->batch->n_tokens >= c->parts) {
        while (qsa_host_steal(c, QSA_STEALING_SCAN, c->batch->n_tokens, QSA_SCAN_QUERIES, &begin, &end))
            scored += scan_queries(c, (uint32_t)begin, (uint32_t)end);
    } else {
        qsa_share((uint64_t)c->batch->n_tokens * ranges_per_query(c), c->part, c->parts, &begin, &end);
        for (uint64_t task = begin; task < end; task++)
            scored += scan_range(c, (uint32_t)(task - begin), (uint32_t)task);
    }
    atomic_fetch_add_explicit(&c->store->base.work->groups_scored, scored, memory_order_relaxed);
}

static void merge(const qsa_host_context *c, uint32_t token)
{
    if (!drops_something(c, &c->batch->queries[token])) {
        choose_all(c, token);
        return;
    }
    const qsa_ranges ranges = ranges_of(c, token);
    c->store->n_selected[token] =
        qsa_ranges_merge(&ranges, buffer_of(c, QSA_RANGES_LIMIT), c->store->selected + (size_t)token * c->store->k);
}

void qsa_host_select(const qsa_host_context *c)
{
    if (c->batch->n_tokens >= c->parts)
        return; /* phase 1 selected */
    uint64_t begin, end;
    qsa_share(c->batch->n_tokens, c->part, c->parts, &begin, &end);
    for (uint64_t token = begin; token < end; token++)
        merge(c, (uint32_t)token);
}
