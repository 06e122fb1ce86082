/* SPDX-License-Identifier: Apache-2.0 */
/* Planning and creating a cache. It stands in the last room because it measures the working memory of all. */
#include "base/limits.h"
#include "base/shape.h"
#include "step/step.h"

#include <inttypes.h>
#include <string.h>

static void carve_part(qsa_carve *carve, const qsa_config *config, const qsa_layout *layout, qsa_part *out)
{
    const uint32_t row = qsa_row_limit(layout, config->budget), blocks = qsa_block_limit(layout, config->budget);
    const uint32_t capacity = qsa_selection_capacity(config->budget / config->ratio);
    qsa_part part;
    part.queries =
        qsa_carve_bytes(carve, (uint64_t)QSA_SCAN_QUERIES * config->index_heads * config->index_dim, sizeof(float));
    part.scores =
        qsa_carve_bytes(carve, (uint64_t)QSA_SCAN_QUERIES * QSA_SCAN_TILES * layout->page_groups, sizeof(float));
    part.candidates = qsa_carve_bytes(carve, (uint64_t)QSA_SCAN_QUERIES * capacity, sizeof(qsa_candidate));
    part.raw = qsa_carve_bytes(carve, (uint64_t)config->ratio * config->index_dim, sizeof(float));
    part.k = qsa_carve_bytes(carve, (uint64_t)config->kv_heads * config->head_dim, sizeof(float));
    part.attend.x_stride = (size_t)blocks * QSA_BLOCK_TOKENS;
    part.attend.row.blocks = qsa_carve_bytes(carve, blocks, sizeof(void *));
    part.attend.row.v = qsa_carve_bytes(carve, row, sizeof(void *));
    part.attend.row.lanes = qsa_carve_bytes(carve, row, sizeof(uint32_t));
    part.attend.q = qsa_carve_bytes(carve, (uint64_t)QSA_HEADS_AT_ONCE * config->head_dim, sizeof(float));
    part.attend.x = qsa_carve_bytes(carve, (uint64_t)QSA_HEADS_AT_ONCE * part.attend.x_stride, sizeof(float));
    if (out != NULL)
        *out = part;
}

struct qsa_step *qsa_step_carve(qsa_carve *carve, const qsa_config *config, const qsa_layout *layout)
{
    struct qsa_step *step = qsa_carve_bytes(carve, 1, sizeof *step), local;
    memset(&local, 0, sizeof local);
    const uint64_t tokens = config->max_step_tokens, ranges = 2 * (uint64_t)config->max_parts;
    local.k = config->budget / config->ratio;
    local.capacity = qsa_selection_capacity(local.k);
    local.entries = qsa_carve_bytes(carve, tokens, sizeof *local.entries);
    local.token_entry = qsa_carve_bytes(carve, tokens, sizeof *local.token_entry);
    local.relative = qsa_carve_bytes(carve, tokens, sizeof *local.relative);
    local.cos_sin = qsa_carve_bytes(carve, tokens * config->rotary_dim, sizeof(float));
    local.selected = qsa_carve_bytes(carve, tokens * local.k, sizeof(uint32_t));
    local.n_selected = qsa_carve_bytes(carve, tokens, sizeof(uint32_t));
    local.sequence_stamp = qsa_carve_bytes(carve, config->max_sequences, sizeof(uint64_t));
    local.partial = qsa_carve_bytes(carve, ranges * local.k, sizeof(qsa_candidate));
    local.n_partial = qsa_carve_bytes(carve, ranges, sizeof(uint32_t));
    local.layer.next_phase = qsa_carve_bytes(carve, QSA_MAX_PARTS, 1);
    local.layer_done = qsa_carve_bytes(carve, config->layers, 1);
    local.parts = qsa_carve_bytes(carve, config->max_parts, sizeof(qsa_part));
    for (uint32_t i = 0; i < config->max_parts; i++)
        carve_part(carve, config, layout, local.parts == NULL ? NULL : &local.parts[i]);
    if (step == NULL)
        return NULL;
    memset(local.sequence_stamp, 0, config->max_sequences * sizeof(uint64_t));
    memcpy(step, &local, sizeof local);
    return step;
}

/* Everything but the arenas, in one allocation. */
typedef struct table_plan {
    uint64_t table_bytes, weight_bytes, scratch_bytes;
} table_plan;

static size_t weight_floats(const qsa_config *config)
{
    return 2 * ((size_t)config->head_dim + config->index_dim);
}

static qsa_cache *carve_cache(qsa_carve *carve, const qsa_config *config, const qsa_layout *layout, table_plan *plan)
{
    qsa_cache *cache = qsa_carve_bytes(carve, 1, sizeof *cache);
    float *weights = qsa_carve_bytes(carve, config->layers * weight_floats(config), sizeof(float));
    plan->weight_bytes = carve->used;
    uint32_t *references = qsa_carve_bytes(carve, layout->pages, sizeof *references);
    uint32_t *free_pages = qsa_carve_bytes(carve, layout->pages, sizeof *free_pages);
    qsa_sequence *sequences = qsa_carve_bytes(carve, config->max_sequences, sizeof *sequences);
    uint32_t *tables = qsa_carve_bytes(carve, 2 * config->max_sequences * layout->pages, sizeof *tables);
    uint32_t *page_map = qsa_carve_bytes(carve, 2 * layout->pages, sizeof *page_map);
    plan->table_bytes = carve->used - plan->weight_bytes;
    struct qsa_step *step = qsa_step_carve(carve, config, layout);
    plan->scratch_bytes = carve->used - plan->weight_bytes - plan->table_bytes;
    if (cache == NULL)
        return NULL;
    memset(cache, 0, sizeof *cache);
    cache->config = *config;
    cache->config.norms = NULL;
    cache->config.allocator = NULL;
    cache->layout = *layout;
    cache->weights = weights;
    cache->references = references;
    cache->free_pages = free_pages;
    cache->sequences = sequences;
    cache->tables = tables;
    cache->page_map = page_map;
    cache->step = step;
    step->cache = cache;
    return cache;
}

static qsa_status plan_memory(const qsa_config *config, qsa_layout *layout, qsa_memory_plan *plan)
{
    QSA_TRY(qsa_shape_check(config));
    QSA_TRY(qsa_layout_init(config, layout));
    qsa_carve carve = {0};
    table_plan tables;
    carve_cache(&carve, config, layout, &tables);
    *plan = (qsa_memory_plan){
        .kv_bytes = layout->arena_bytes[QSA_ARENA_K] + layout->arena_bytes[QSA_ARENA_V],
        .index_bytes =
            layout->arena_bytes[QSA_ARENA_RAW] + layout->arena_bytes[QSA_ARENA_POOLED] + layout->triple_bytes,
        .table_bytes = tables.table_bytes,
        .scratch_bytes = tables.scratch_bytes,
        .weight_bytes = tables.weight_bytes,
        .pages = layout->pages,
    };
    plan->bytes_per_token = (plan->kv_bytes + plan->index_bytes) / (layout->pages * QSA_PAGE_TOKENS);
    if (carve.overflow || !qsa_add(plan->kv_bytes + plan->index_bytes, carve.used, &plan->total_bytes) ||
        plan->total_bytes > (uint64_t)INT64_MAX)
        return qsa_fail(QSA_E_LIMIT, "the cache would not fit in 2^63 bytes");
    return QSA_OK;
}

qsa_status qsa_plan_memory(const qsa_config *config, qsa_memory_plan *out_plan)
{
    if (out_plan == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "plan: NULL argument");
    qsa_layout layout;
    qsa_memory_plan plan;
    QSA_TRY(plan_memory(config, &layout, &plan));
    *out_plan = plan;
    return QSA_OK;
}

/* ---- creation ---- */

qsa_layer_weights qsa_cache_weights(const qsa_cache *cache, uint32_t layer)
{
    const float *base = cache->weights + layer * weight_floats(&cache->config);
    const uint32_t head = cache->config.head_dim, index = cache->config.index_dim;
    return (qsa_layer_weights){
        .q = base, .k = base + head, .index_q = base + 2 * head, .index_k = base + 2 * head + index};
}

static qsa_status copy_weight(const qsa_kernels *kernels, const float *from, uint32_t dim, uint32_t layer,
                              const char *name, float *to)
{
    for (uint32_t d = 0; d < dim; d++)
        to[d] = from == NULL ? 1.0f : from[d];
    size_t bad = kernels->check(to, dim, QSA_WEIGHT_LIMIT);
    if (bad < dim)
        return qsa_fail(QSA_E_NONFINITE, "layer %" PRIu32 ": norm weight %s[%zu] is not finite or beyond 2^40", layer,
                        name, bad);
    return QSA_OK;
}

static qsa_status copy_weights(qsa_cache *cache, const qsa_norm_weights *norms)
{
    const uint32_t head = cache->config.head_dim, index = cache->config.index_dim;
    for (uint32_t layer = 0; layer < cache->config.layers; layer++) {
        float *to = cache->weights + layer * weight_floats(&cache->config);
        const qsa_norm_weights none = {0}, *from = norms == NULL ? &none : &norms[layer];
        QSA_TRY(copy_weight(cache->kernels, from->q, head, layer, "q", to));
        QSA_TRY(copy_weight(cache->kernels, from->k, head, layer, "k", to + head));
        QSA_TRY(copy_weight(cache->kernels, from->index_q, index, layer, "index_q", to + 2 * head));
        QSA_TRY(copy_weight(cache->kernels, from->index_k, index, layer, "index_k", to + 2 * head + index));
    }
    return QSA_OK;
}

/* Pages are handed out from 0 upwards, so that a lone sequence scans as one stream. */
static void init_tables(qsa_cache *cache)
{
    const uint32_t pages = (uint32_t)cache->layout.pages;
    for (uint32_t page = 0; page < pages; page++) {
        cache->references[page] = 0;
        cache->free_pages[page] = pages - 1 - page;
    }
    cache->n_free = pages;
    for (uint32_t slot = 0; slot < cache->config.max_sequences; slot++) {
        uint32_t *tables = cache->tables + 2 * (size_t)slot * pages;
        cache->sequences[slot] = (qsa_sequence){.table = tables, .tables = tables};
    }
}

static uint64_t arena_bytes(const qsa_cache *cache, int i)
{
    return i < QSA_ARENA_COUNT ? cache->layout.arena_bytes[i] : cache->layout.triple_bytes;
}

static qsa_status allocate_arenas(qsa_cache *cache)
{
    for (int i = 0; i <= QSA_ARENA_COUNT; i++) {
        void *memory = qsa_allocate(&cache->allocator, arena_bytes(cache, i));
        if (memory == NULL)
            return qsa_fail(QSA_E_MEMORY, "no memory for %" PRIu64 " bytes of pages", arena_bytes(cache, i));
        if (i < QSA_ARENA_COUNT)
            cache->arena[i] = memory;
        else
            cache->triples = memory;
    }
    return QSA_OK;
}

static qsa_status init_cache(qsa_cache *cache, const qsa_config *config)
{
    const char *wanted = "";
    cache->kernels = qsa_kernels_choose(&wanted);
    if (cache->kernels == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "QSA_ISA=%s: this processor or build does not have it", wanted);
    QSA_TRY(qsa_rotary_init(config, &cache->rotary));
    QSA_TRY(copy_weights(cache, config->norms));
    init_tables(cache);
    return allocate_arenas(cache);
}

qsa_status qsa_cache_create(const qsa_config *config, qsa_cache **out_cache)
{
    if (out_cache == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "create: NULL argument");
    qsa_layout layout;
    qsa_memory_plan plan;
    QSA_TRY(plan_memory(config, &layout, &plan));
    const qsa_allocator allocator = config->allocator == NULL ? qsa_default_allocator : *config->allocator;
    uint64_t bytes = plan.total_bytes - plan.kv_bytes - plan.index_bytes;
    qsa_carve carve = {.base = qsa_allocate(&allocator, bytes)};
    if (carve.base == NULL)
        return qsa_fail(QSA_E_MEMORY, "no memory for %" PRIu64 " bytes of tables and working memory", bytes);
    table_plan tables;
    qsa_cache *cache = carve_cache(&carve, config, &layout, &tables);
    cache->allocator = allocator;
    qsa_status status = init_cache(cache, config);
    if (status != QSA_OK) {
        qsa_cache_destroy(cache);
        return status;
    }
    *out_cache = cache;
    return QSA_OK;
}

void qsa_cache_destroy(qsa_cache *cache)
{
    if (cache == NULL)
        return;
    const qsa_allocator allocator = cache->allocator;
    for (int i = 0; i < QSA_ARENA_COUNT; i++)
        qsa_release(&allocator, cache->arena[i], arena_bytes(cache, i));
    qsa_release(&allocator, cache->triples, arena_bytes(cache, QSA_ARENA_COUNT));
    qsa_carve carve = {0};
    table_plan tables;
    carve_cache(&carve, &cache->config, &cache->layout, &tables);
    qsa_release(&allocator, cache, carve.used);
}

qsa_status qsa_cache_config(const qsa_cache *cache, qsa_config *out_config)
{
    if (cache == NULL || out_config == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "config: NULL argument");
    *out_config = cache->config;
    return QSA_OK;
}

qsa_status qsa_cache_counters(const qsa_cache *cache, qsa_counters *out_counters)
{
    if (cache == NULL || out_counters == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "counters: NULL argument");
    *out_counters = cache->counters;
    out_counters->keys_pooled = atomic_load(&cache->work.keys_pooled);
    out_counters->groups_scored = atomic_load(&cache->work.groups_scored);
    out_counters->groups_chosen = atomic_load(&cache->work.groups_chosen);
    out_counters->k_rows_read = atomic_load(&cache->work.k_rows_read);
    return QSA_OK;
}

uint64_t qsa_cache_free_tokens(const qsa_cache *cache)
{
    return cache == NULL ? 0 : (uint64_t)cache->n_free * QSA_PAGE_TOKENS;
}

const char *qsa_cache_isa(const qsa_cache *cache)
{
    return cache == NULL ? "" : cache->kernels->isa;
}
