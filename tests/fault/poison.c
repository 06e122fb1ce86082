#include "poison.h"

#include "device/host/store.h"
#include "device/values.h"
#include "step/step.h"

#include <math.h>
#include <string.h>

static void poison_slot(qsa_cache *cache, qsa_place place)
{
    static float nan[QSA_MAX_DIM];
    for (int i = 0; i < QSA_MAX_DIM; i++)
        nan[i] = NAN;
    const qsa_layout *layout = &cache->layout;
    const qsa_host_store *store = qsa_host(cache->store);
    for (uint32_t layer = 0; layer < layout->config.layers; layer++) {
        for (uint32_t head = 0; head < layout->config.kv_heads; head++) {
            qsa_store_k(cache->store->kernels, layout, qsa_host_page(store, QSA_ARENA_KV, layer, place.page),
                        place.slot, head, nan);
            qsa_store_v(cache->store->kernels, layout, qsa_host_page(store, QSA_ARENA_KV, layer, place.page),
                        place.slot, head, nan);
        }
        qsa_store_raw(layout, qsa_host_page(store, QSA_ARENA_RAW, layer, place.page), place.slot, nan);
    }
    memset(qsa_triple_at(cache, place), 0x7f, sizeof(qsa_triple));
}

static void poison_group(qsa_cache *cache, qsa_place first)
{
    static float nan[QSA_MAX_DIM];
    for (int i = 0; i < QSA_MAX_DIM; i++)
        nan[i] = NAN;
    for (uint32_t layer = 0; layer < cache->layout.config.layers; layer++)
        qsa_store_pooled(&cache->layout, qsa_host_page(qsa_host(cache->store), QSA_ARENA_POOLED, layer, first.page),
                         first.slot, nan);
}

/* The slots [from, to) of a page; groups of which one of these is the last are not complete. */
static void poison_slots(qsa_cache *cache, uint32_t page, uint32_t from, uint32_t to)
{
    for (uint32_t slot = from; slot < to; slot++) {
        poison_slot(cache, (qsa_place){page, slot});
        if ((slot + 1) % cache->layout.config.ratio == 0)
            poison_group(cache, (qsa_place){page, slot + 1 - cache->layout.config.ratio});
    }
}

static void poison_tail(qsa_cache *cache, const qsa_sequence *sequence)
{
    if (!sequence->open || sequence->n_pages == 0)
        return;
    uint32_t page = *qsa_sequence_page(sequence, sequence->n_pages - 1);
    uint64_t used = sequence->first_slot + (uint64_t)(sequence->frontier - sequence->anchor);
    if (cache->references[page] == 1 && used % QSA_PAGE_TOKENS != 0)
        poison_slots(cache, page, (uint32_t)(used % QSA_PAGE_TOKENS), QSA_PAGE_TOKENS);
}

static void poison_scratch(const qsa_cache *cache, const qsa_scratch *scratch)
{
    const qsa_config *config = &cache->layout.config;
    const uint32_t row = qsa_selected_limit(config->ratio, config->budget);
    memset(scratch->queries, 0xff, QSA_SCAN_QUERIES * config->index_heads * config->index_dim * sizeof(float));
    memset(scratch->scores, 0xff, QSA_SCAN_QUERIES * QSA_SCAN_TILES * cache->layout.page_groups * sizeof(float));
    memset(scratch->candidates, 0xff,
           QSA_SCAN_QUERIES * (size_t)qsa_host(cache->store)->capacity * sizeof(qsa_candidate));
    memset(scratch->raw, 0xff, config->ratio * config->index_dim * sizeof(float));
    memset(scratch->means, 0xff, QSA_POOLED_AT_ONCE * config->index_dim * sizeof(float));
    memset(scratch->pooled, 0xff, QSA_POOLED_AT_ONCE * config->index_dim * sizeof(float));
    memset(scratch->angles, 0xff, QSA_POOLED_AT_ONCE * config->rotary_dim * sizeof(float));
    memset(scratch->k, 0xff, qsa_append_limit(config) * config->kv_heads * config->head_dim * sizeof(float));
    memset(scratch->attend.selected.v, 0xff, row * sizeof(void *));
    memset(scratch->attend.v_from, 0xff, row * sizeof(void *));
    memset(scratch->attend.selected.lanes, 0xff, row * sizeof(uint32_t));
    memset(scratch->attend.selected.blocks, 0xff, qsa_block_limit(config->ratio, config->budget) * sizeof(void *));
    memset(scratch->attend.q, 0xff, QSA_HEADS_AT_ONCE * config->head_dim * sizeof(float));
    memset(scratch->attend.x, 0xff, QSA_HEADS_AT_ONCE * scratch->attend.x_stride * sizeof(float));
}

static void poison_step(const qsa_cache *cache)
{
    struct qsa_step *step = qsa_step_of(cache);
    const size_t tokens = cache->layout.config.max_step_tokens;
    memset(step->entries, 0xff, tokens * sizeof *step->entries);
    memset(step->batch_entries, 0xff, tokens * sizeof *step->batch_entries);
    memset(step->token_entry, 0xff, tokens * sizeof *step->token_entry);
    memset(step->queries, 0xff, tokens * sizeof *step->queries);
    memset(step->tasks, 0xff, tokens * sizeof *step->tasks);
    memset(step->relative, 0x7f, tokens * sizeof *step->relative);
    memset(step->cos_sin, 0xff, 2 * tokens * cache->layout.config.rotary_dim * sizeof(float));
    memset(cache->page_cos_sin, 0xff, cache->layout.page_groups * cache->layout.config.rotary_dim * sizeof(float));
}

static void poison_store(const qsa_cache *cache)
{
    qsa_host_store *store = qsa_host(cache->store);
    const size_t tokens = cache->layout.config.max_step_tokens,
                 ranges = QSA_RANGES_LIMIT * (size_t)cache->layout.config.max_parts;
    memset(store->selected, 0xff, tokens * store->k * sizeof *store->selected);
    memset(store->n_selected, 0xff, tokens * sizeof *store->n_selected);
    memset(store->ranges, 0xff, ranges * sizeof *store->ranges);
    memset(store->few, 0xff, ranges * qsa_few_limit(store->k, 2) * sizeof *store->few);
    memset(store->qk, 0xff,
           (cache->layout.config.max_parts - 1) *
               (size_t)(cache->layout.config.q_heads / cache->layout.config.kv_heads) *
               store->scratch[0].attend.x_stride * sizeof(float));
    for (uint32_t i = 0; i < cache->layout.config.max_parts; i++)
        poison_scratch(cache, &store->scratch[i]);
}

void poison_dead(qsa_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_free; i++)
        poison_slots(cache, cache->free_pages[i], 0, QSA_PAGE_TOKENS);
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++)
        poison_tail(cache, &cache->sequences[slot]);
    poison_step(cache);
    poison_store(cache);
}
