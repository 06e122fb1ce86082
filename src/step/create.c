/* SPDX-License-Identifier: Apache-2.0 */
/* Planning and creating a cache. It stands in the last room because it measures the working memory of all. */
#include "base/limits.h"
#include "base/shape.h"
#include "step/step.h"

#include <inttypes.h>
#include <string.h>

struct qsa_step *qsa_step_carve(qsa_carve *carve, const qsa_config *config)
{
    struct qsa_step *step = qsa_carve_bytes(carve, 1, sizeof *step), local;
    memset(&local, 0, sizeof local);
    const uint64_t tokens = config->max_step_tokens;
    local.entries = qsa_carve_bytes(carve, tokens, sizeof *local.entries);
    local.batch_entries = qsa_carve_bytes(carve, tokens, sizeof *local.batch_entries);
    local.token_entry = qsa_carve_bytes(carve, tokens, sizeof *local.token_entry);
    local.queries = qsa_carve_bytes(carve, tokens, sizeof *local.queries);
    local.units = qsa_carve_bytes(carve, tokens, sizeof *local.units);
    local.relative = qsa_carve_bytes(carve, tokens, sizeof *local.relative);
    local.cos_sin = qsa_carve_bytes(carve, 2 * tokens * config->rotary_dim, sizeof(float));
    local.sequence_stamp = qsa_carve_bytes(carve, config->max_sequences, sizeof(uint64_t));
    local.layer.next_phase = qsa_carve_bytes(carve, QSA_MAX_PARTS, 1);
    local.layer_done = qsa_carve_bytes(carve, config->layers, 1);
    if (step == NULL)
        return NULL;
    memset(local.sequence_stamp, 0, config->max_sequences * sizeof(uint64_t));
    memcpy(step, &local, sizeof local);
    step->batch = (qsa_batch){.entries = step->batch_entries,
                              .token_entry = step->token_entry,
                              .queries = step->queries,
                              .units = step->units,
                              .cos_sin = step->cos_sin,
                              .refusals = &step->refusals};
    return step;
}

/* Everything but the arenas, in one allocation. */
typedef struct table_plan {
    uint64_t table_bytes, weight_bytes, scratch_bytes;
} table_plan;

static qsa_cache *carve_cache(qsa_carve *carve, const qsa_config *config, const qsa_layout *layout, table_plan *plan)
{
    qsa_cache *cache = qsa_carve_bytes(carve, 1, sizeof *cache);
    float *weights = qsa_carve_bytes(carve, config->layers * qsa_weight_floats(config), sizeof(float));
    plan->weight_bytes = carve->used;
    uint32_t *references = qsa_carve_bytes(carve, layout->pages, sizeof *references);
    uint32_t *free_pages = qsa_carve_bytes(carve, layout->pages, sizeof *free_pages);
    qsa_sequence *sequences = qsa_carve_bytes(carve, config->max_sequences, sizeof *sequences);
    uint32_t *tables = qsa_carve_bytes(carve, 2 * config->max_sequences * layout->pages, sizeof *tables);
    uint32_t *page_map = qsa_carve_bytes(carve, 2 * layout->pages, sizeof *page_map);
    plan->table_bytes = carve->used - plan->weight_bytes;
    float *page_cos_sin = qsa_carve_bytes(carve, (uint64_t)layout->page_groups * config->rotary_dim, sizeof(float));
    struct qsa_step *step = qsa_step_carve(carve, config);
    qsa_store *store = qsa_operations_of(config)->carve(carve, config, layout);
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
    cache->page_cos_sin = page_cos_sin;
    cache->step = step;
    step->cache = cache;
    cache->store = store;
    *store = (qsa_store){.operations = qsa_operations_of(config),
                         .config = &cache->config,
                         .layout = &cache->layout,
                         .rotary = &cache->rotary,
                         .allocator = &cache->allocator,
                         .weights = weights,
                         .work = &cache->work};
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
        .kv_bytes = layout->arena_bytes[QSA_ARENA_KV],
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
        float *to = cache->weights + layer * qsa_weight_floats(&cache->config);
        const qsa_norm_weights none = {0}, *from = norms == NULL ? &none : &norms[layer];
        QSA_TRY(copy_weight(cache->store->kernels, from->q, head, layer, "q", to));
        QSA_TRY(copy_weight(cache->store->kernels, from->k, head, layer, "k", to + head));
        QSA_TRY(copy_weight(cache->store->kernels, from->index_q, index, layer, "index_q", to + 2 * head));
        QSA_TRY(copy_weight(cache->store->kernels, from->index_k, index, layer, "index_k", to + 2 * head + index));
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

static qsa_status init_cache(qsa_cache *cache, const qsa_config *config)
{
    const char *wanted = "";
    cache->store->kernels = qsa_kernels_choose(&wanted);
    if (cache->store->kernels == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "QSA_ISA=%s: this processor or build does not have it", wanted);
    QSA_TRY(qsa_rotary_init(config, &cache->rotary));
    QSA_TRY(copy_weights(cache, config->norms));
    init_tables(cache);
    cache->triples = qsa_allocate(&cache->allocator, cache->layout.triple_bytes);
    if (cache->triples == NULL)
        return qsa_fail(QSA_E_MEMORY, "no memory for %" PRIu64 " bytes of rotary triples", cache->layout.triple_bytes);
    return cache->store->operations->open(cache->store);
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
    cache->store->operations->close(cache->store);
    qsa_release(&allocator, cache->triples, cache->layout.triple_bytes);
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
    out_counters->bytes_uploaded = atomic_load(&cache->work.bytes_uploaded);
    out_counters->bytes_downloaded = atomic_load(&cache->work.bytes_downloaded);
    out_counters->launches = atomic_load(&cache->work.launches);
    return QSA_OK;
}

uint64_t qsa_cache_free_tokens(const qsa_cache *cache)
{
    return cache == NULL ? 0 : (uint64_t)cache->n_free * QSA_PAGE_TOKENS;
}

const char *qsa_cache_isa(const qsa_cache *cache)
{
    return cache == NULL ? "" : cache->store->kernels->isa;
}
