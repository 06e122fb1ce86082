/* SPDX-License-Identifier: Apache-2.0 */
/* Phases 1 and 2: scores and membership.
 *
 * With at least as many queries as parts a part owns whole queries and its selection is final. With fewer, each query's
 * pages are cut into ranges; a range leaves its best candidates in `partial`, and phase 2 merges them in order. */
#include "run/run.h"
#include "step/step.h"

#include <string.h>

qsa_query qsa_query_of(const qsa_step *step, uint32_t token)
{
    const qsa_step_entry *entry = qsa_entry_of(step, token);
    uint64_t ratio = step->cache->layout.ratio, visible = entry->stored + (token - entry->first_token) + 1;
    const qsa_sequence *sequence = entry->sequence;
    int64_t anchor = sequence->placed ? sequence->anchor : entry->position;
    int64_t first = qsa_run_window_anchor(anchor, anchor + (int64_t)visible - 1, (uint32_t)ratio, sequence->window);
    qsa_query query = {.first_group = (uint64_t)(first - anchor) / ratio, .end_group = visible / ratio};
    query.tail = query.end_group * ratio;
    query.n_tail = (uint32_t)(visible - query.tail);
    return query;
}

static bool drops_something(const qsa_step *step, const qsa_query *query)
{
    return query->end_group - query->first_group > step->k;
}

/* Below the cut every candidate is a member. */
static void choose_all(qsa_step *step, uint32_t token, const qsa_query *query)
{
    uint32_t *selected = step->selected + (size_t)token * step->k;
    step->n_selected[token] = (uint32_t)(query->end_group - query->first_group);
    for (uint32_t i = 0; i < step->n_selected[token]; i++)
        selected[i] = (uint32_t)query->first_group + i;
}

static void load_query(const qsa_step *step, uint32_t token, float *out)
{
    const qsa_cache *cache = step->cache;
    const qsa_config *config = &cache->config;
    const qsa_strided *in = &step->layer.tensors.index_q;
    qsa_index_norm_rotate(cache->kernels, in->data + token * in->token_stride, in->head_stride, config->index_heads,
                          config->index_dim, qsa_cache_weights(cache, step->layer.layer).index_q, config->eps,
                          cache->rotary.pairs, qsa_token_cos_sin(step, token), config->profile == QSA_PROFILE_BF16,
                          out);
}

/* Pages of a sequence, counted in its table. */
typedef struct page_range {
    uint64_t begin, end;
} page_range;

static uint64_t slot_groups(const qsa_step *step, const qsa_step_entry *entry)
{
    return entry->sequence->first_slot / step->cache->layout.ratio;
}

static page_range pages_of(const qsa_step *step, const qsa_step_entry *entry, uint64_t first_group, uint64_t end_group)
{
    uint64_t before = slot_groups(step, entry), per_page = step->cache->layout.page_groups;
    return (page_range){(first_group + before) / per_page, (end_group + before + per_page - 1) / per_page};
}

/* Offers the candidates among the lanes of one page. */
static void offer_page(const qsa_step *step, const qsa_step_entry *entry, const qsa_query *query, uint64_t page,
                       const float *scores, qsa_selection *selection)
{
    const uint64_t per_page = step->cache->layout.page_groups, before = slot_groups(step, entry);
    uint64_t lane = 0, end = per_page;
    if (page * per_page < query->first_group + before)
        lane = query->first_group + before - page * per_page;
    if ((page + 1) * per_page > query->end_group + before)
        end = page * per_page >= query->end_group + before ? 0 : query->end_group + before - page * per_page;
    if (lane < end)
        qsa_selection_offer(selection, scores + lane, (uint32_t)(page * per_page + lane - before),
                            (uint32_t)(end - lane));
}

/* Scans pages for the queries first .. first + n - 1 of one entry, all of which drop something. */
static void scan_pages(qsa_step *step, qsa_part *part, const qsa_step_entry *entry, uint32_t first, uint32_t n,
                       page_range pages, qsa_selection *selections)
{
    const qsa_cache *cache = step->cache;
    const qsa_config *config = &cache->config;
    const uint32_t per_page = cache->layout.page_groups, width = config->index_heads * config->index_dim;
    qsa_query queries[QSA_SCAN_QUERIES];
    for (uint32_t i = 0; i < n; i++) {
        queries[i] = qsa_query_of(step, first + i);
        load_query(step, first + i, part->queries + (size_t)i * width);
        qsa_selection_begin(&selections[i], part->candidates + (size_t)i * step->capacity, step->capacity, step->k);
    }
    for (uint64_t page = pages.begin; page < pages.end; page += QSA_SCAN_TILES) {
        const void *tiles[QSA_SCAN_TILES];
        uint32_t n_tiles = pages.end - page < QSA_SCAN_TILES ? (uint32_t)(pages.end - page) : QSA_SCAN_TILES;
        for (uint32_t t = 0; t < n_tiles; t++)
            tiles[t] = qsa_tile_at(cache, step->layer.layer, entry->sequence->table[page + t]);
        cache->kernels->score[cache->layout.index_element](part->queries, n, config->index_heads, config->index_dim,
                                                           tiles, n_tiles, per_page, part->scores);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t t = 0; t < n_tiles; t++)
                offer_page(step, entry, &queries[i], page + t, part->scores + ((size_t)i * n_tiles + t) * per_page,
                           &selections[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        qsa_selection_shrink(&selections[i]);
}

static void emit(qsa_step *step, uint32_t token, const qsa_candidate *members, uint32_t n)
{
    uint32_t *selected = step->selected + (size_t)token * step->k;
    step->n_selected[token] = n;
    for (uint32_t i = 0; i < n; i++)
        selected[i] = members[i].group;
}

/* Whole queries [begin, end) of the step, in tiles that stay within an entry. */
static uint64_t scan_queries(qsa_step *step, qsa_part *part, uint32_t begin, uint32_t end)
{
    uint64_t scored = 0;
    qsa_selection selections[QSA_SCAN_QUERIES];
    for (uint32_t token = begin; token < end;) {
        qsa_query query = qsa_query_of(step, token);
        if (!drops_something(step, &query)) {
            choose_all(step, token++, &query);
            continue;
        }
        const qsa_step_entry *entry = qsa_entry_of(step, token);
        uint32_t n = entry->first_token + entry->tokens - token;
        n = n < end - token ? n : end - token;
        n = n < QSA_SCAN_QUERIES ? n : QSA_SCAN_QUERIES;
        qsa_query last = qsa_query_of(step, token + n - 1);
        scan_pages(step, part, entry, token, n, pages_of(step, entry, query.first_group, last.end_group), selections);
        for (uint32_t i = 0; i < n; i++) {
            qsa_query one = qsa_query_of(step, token + i);
            scored += one.end_group - one.first_group;
            emit(step, token + i, selections[i].buffer, selections[i].count);
        }
        token += n;
    }
    return scored;
}

/* Ranges per query when there are fewer queries than parts; their number is that of the phases' units. */
static uint32_t ranges_per_query(const qsa_step *step, uint32_t parts)
{
    return (parts + step->n_tokens - 1) / step->n_tokens;
}

static uint64_t scan_range(qsa_step *step, qsa_part *part, uint32_t unit, uint32_t ranges)
{
    uint32_t token = unit / ranges;
    qsa_query query = qsa_query_of(step, token);
    step->n_partial[unit] = 0;
    if (!drops_something(step, &query))
        return 0;
    const qsa_step_entry *entry = qsa_entry_of(step, token);
    page_range all = pages_of(step, entry, query.first_group, query.end_group), mine;
    qsa_share(all.end - all.begin, unit % ranges, ranges, &mine.begin, &mine.end);
    mine.begin += all.begin;
    mine.end += all.begin;
    qsa_selection selection;
    scan_pages(step, part, entry, token, 1, mine, &selection);
    memcpy(step->partial + (size_t)unit * step->k, selection.buffer, selection.count * sizeof(qsa_candidate));
    step->n_partial[unit] = selection.count;
    return unit % ranges == 0 ? query.end_group - query.first_group : 0;
}

void qsa_phase_scan(qsa_step *step, uint32_t part, uint32_t parts)
{
    uint64_t begin, end, scored = 0;
    if (step->n_tokens >= parts) {
        qsa_share(step->n_tokens, part, parts, &begin, &end);
        scored = scan_queries(step, &step->parts[part], (uint32_t)begin, (uint32_t)end);
    } else {
        uint32_t ranges = ranges_per_query(step, parts);
        qsa_share((uint64_t)step->n_tokens * ranges, part, parts, &begin, &end);
        for (uint64_t unit = begin; unit < end; unit++)
            scored += scan_range(step, &step->parts[part], (uint32_t)unit, ranges);
    }
    atomic_fetch_add_explicit(&step->cache->work.groups_scored, scored, memory_order_relaxed);
}

/* The ranges of a query, in order, are in order of group; they are packed to the front and shrunk once more. */
static void merge(qsa_step *step, uint32_t token, uint32_t ranges)
{
    qsa_query query = qsa_query_of(step, token);
    if (!drops_something(step, &query)) {
        choose_all(step, token, &query);
        return;
    }
    qsa_candidate *first = step->partial + (size_t)token * ranges * step->k;
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranges; r++) {
        uint32_t n = step->n_partial[token * ranges + r];
        memmove(first + count, first + (size_t)r * step->k, n * sizeof(qsa_candidate));
        count += n;
    }
    int64_t tau;
    emit(step, token, first, qsa_shrink(first, count, step->k, &tau));
}

void qsa_phase_select(qsa_step *step, uint32_t part, uint32_t parts)
{
    if (step->n_tokens >= parts)
        return; /* phase 1 chose */
    uint64_t begin, end;
    qsa_share(step->n_tokens, part, parts, &begin, &end);
    for (uint64_t token = begin; token < end; token++)
        merge(step, (uint32_t)token, ranges_per_query(step, parts));
}
