#include "poison.h"

#include "step/step.h"

#include <math.h>
#include <string.h>

static void poison_slot(qsa_cache *cache, qsa_place place)
{
    static float nan[QSA_MAX_DIM];
    for (int i = 0; i < QSA_MAX_DIM; i++)
        nan[i] = NAN;
    for (uint32_t layer = 0; layer < cache->layout.layers; layer++) {
        for (uint32_t head = 0; head < cache->layout.kv_heads; head++) {
            qsa_store_k(cache, layer, place, head, nan);
            qsa_store_v(cache, layer, place, head, nan);
        }
        qsa_store_raw(cache, layer, place, nan);
    }
    memset(qsa_triple_at(cache, place), 0x7f, sizeof(qsa_triple));
}

static void poison_group(qsa_cache *cache, qsa_place first)
{
    static float nan[QSA_MAX_DIM];
    for (int i = 0; i < QSA_MAX_DIM; i++)
        nan[i] = NAN;
    for (uint32_t layer = 0; layer < cache->layout.layers; layer++)
        qsa_store_pooled(cache, layer, first, nan);
}

/* The slots [from, to) of a page; groups of which one of these is the last are not complete. */
static void poison_slots(qsa_cache *cache, uint32_t page, uint32_t from, uint32_t to)
{
    for (uint32_t slot = from; slot < to; slot++) {
        poison_slot(cache, (qsa_place){page, slot});
        if ((slot + 1) % cache->layout.ratio == 0)
            poison_group(cache, (qsa_place){page, slot + 1 - cache->layout.ratio});
    }
}

static void poison_tail(qsa_cache *cache, const qsa_sequence *sequence)
{
    if (!sequence->open || sequence->n_pages == 0)
        return;
    uint32_t page = sequence->table[sequence->n_pages - 1];
    uint64_t used = sequence->first_slot + (uint64_t)(sequence->frontier - sequence->anchor);
    if (cache->references[page] == 1 && used % QSA_PAGE_TOKENS != 0)
        poison_slots(cache, page, (uint32_t)(used % QSA_PAGE_TOKENS), QSA_PAGE_TOKENS);
}

static void poison_part(const qsa_cache *cache, const qsa_part *part)
{
    const qsa_config *config = &cache->config;
    const uint32_t row = qsa_row_limit(&cache->layout, config->budget);
    memset(part->queries, 0xff, QSA_SCAN_QUERIES * config->index_heads * config->index_dim * sizeof(float));
    memset(part->scores, 0xff, QSA_SCAN_QUERIES * QSA_SCAN_TILES * cache->layout.page_groups * sizeof(float));
    memset(part->candidates, 0xff, QSA_SCAN_QUERIES * (size_t)cache->step->capacity * sizeof(qsa_candidate));
    memset(part->raw, 0xff, config->ratio * config->index_dim * sizeof(float));
    memset(part->k, 0xff, config->kv_heads * config->head_dim * sizeof(float));
    memset(part->attend.row.v, 0xff, row * sizeof(void *));
    memset(part->attend.row.lanes, 0xff, row * sizeof(uint32_t));
    memset(part->attend.row.blocks, 0xff, part->attend.x_stride / QSA_BLOCK_TOKENS * sizeof(void *));
    memset(part->attend.q, 0xff, QSA_HEADS_AT_ONCE * config->head_dim * sizeof(float));
    memset(part->attend.x, 0xff, QSA_HEADS_AT_ONCE * part->attend.x_stride * sizeof(float));
}

static void poison_step(const qsa_cache *cache)
{
    struct qsa_step *step = cache->step;
    const size_t tokens = cache->config.max_step_tokens, ranges = 2 * (size_t)cache->config.max_parts;
    memset(step->entries, 0xff, tokens * sizeof *step->entries);
    memset(step->token_entry, 0xff, tokens * sizeof *step->token_entry);
    memset(step->relative, 0x7f, tokens * sizeof *step->relative);
    memset(step->cos_sin, 0xff, tokens * cache->config.rotary_dim * sizeof(float));
    memset(step->selected, 0xff, tokens * step->k * sizeof *step->selected);
    memset(step->n_selected, 0xff, tokens * sizeof *step->n_selected);
    memset(step->partial, 0xff, ranges * step->k * sizeof *step->partial);
    memset(step->n_partial, 0xff, ranges * sizeof *step->n_partial);
    for (uint32_t i = 0; i < cache->config.max_parts; i++)
        poison_part(cache, &step->parts[i]);
}

void poison_dead(qsa_cache *cache)
{
    for (uint32_t i = 0; i < cache->n_free; i++)
        poison_slots(cache, cache->free_pages[i], 0, QSA_PAGE_TOKENS);
    for (uint32_t slot = 0; slot < cache->config.max_sequences; slot++)
        poison_tail(cache, &cache->sequences[slot]);
    poison_step(cache);
}
