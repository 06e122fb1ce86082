/* SPDX-License-Identifier: Apache-2.0 */
/* Life of a cache: plan, create, destroy; its configuration and counters. */
#include "base/limits.h"
#include "base/shape.h"
#include "cache/cache.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Everything but pages and triples comes from one allocation; this counts its bytes by use. */
typedef struct carved_bytes {
    uint64_t tables, weights, scratch;
} carved_bytes;

static void carve_tables(qsa_carve *carve, const qsa_layout *layout, qsa_cache *cache)
{
    const uint64_t sequences = layout->config.max_sequences;
    const uint64_t chunks = qsa_chunks_limit(layout->pages, sequences);
    const uint64_t directory = qsa_directory_limit(layout->pages);
    cache->n_chunks = (uint32_t)chunks;
    cache->directories = qsa_carve_bytes(carve, (sequences + 1) * directory, sizeof(uint32_t));
    cache->chunk_entries = qsa_carve_bytes(carve, chunks * QSA_CHUNK_PAGES, sizeof(uint32_t));
    cache->chunk_references = qsa_carve_bytes(carve, chunks, sizeof(uint32_t));
    cache->free_chunks = qsa_carve_bytes(carve, chunks, sizeof(uint32_t));
    cache->chunk_of = qsa_carve_bytes(carve, layout->pages, sizeof(uint32_t));
}

/* Returns NULL while measuring. */
static qsa_cache *carve_cache(qsa_carve *carve, const qsa_layout *layout, qsa_carve_step carve_step, carved_bytes *out)
{
    const qsa_config *config = &layout->config;
    qsa_cache *cache = qsa_carve_bytes(carve, 1, sizeof *cache), local = {.layout = *layout};
    local.weights = qsa_carve_bytes(carve, config->layers * qsa_weight_floats(config), sizeof(float));
    out->weights = carve->used;
    local.references = qsa_carve_bytes(carve, layout->pages, sizeof *local.references);
    local.free_pages = qsa_carve_bytes(carve, layout->pages, sizeof *local.free_pages);
    local.sequences = qsa_carve_bytes(carve, config->max_sequences, sizeof *local.sequences);
    carve_tables(carve, layout, &local);
    local.page_map = qsa_carve_bytes(carve, 2 * layout->pages, sizeof *local.page_map);
    const uint64_t counts = layout->pages > local.n_chunks ? layout->pages : local.n_chunks;
    local.counts = qsa_carve_bytes(carve, counts, sizeof *local.counts);
    out->tables = carve->used - out->weights;
    local.page_cos_sin = qsa_carve_bytes(carve, (uint64_t)layout->page_groups * config->rotary_dim, sizeof(float));
    local.step_memory = carve_step(carve, config);
    local.store = qsa_operations_of(config)->carve(carve, layout);
    out->scratch = carve->used - out->weights - out->tables;
    local.carved_bytes = carve->used;
    if (cache == NULL)
        return NULL;
    memcpy(cache, &local, sizeof local);
    *cache->store = (qsa_store){.operations = qsa_operations_of(config),
                                .config = &cache->layout.config,
                                .layout = &cache->layout,
                                .rotary = &cache->rotary,
                                .allocator = &cache->allocator,
                                .weights = cache->weights,
                                .work = &cache->work};
    return cache;
}

static qsa_status measure(const qsa_config *config, qsa_carve_step carve_step, qsa_layout *layout,
                          qsa_memory_plan *plan)
{
    QSA_TRY(qsa_shape_check(config));
    QSA_TRY(qsa_layout_init(config, layout));
    qsa_carve carve = {0};
    carved_bytes bytes;
    carve_cache(&carve, layout, carve_step, &bytes);
    *plan = (qsa_memory_plan){
        .kv_bytes = layout->arena_bytes[QSA_ARENA_KV],
        .index_bytes =
            layout->arena_bytes[QSA_ARENA_RAW] + layout->arena_bytes[QSA_ARENA_POOLED] + layout->triple_bytes,
        .table_bytes = bytes.tables,
        .scratch_bytes = bytes.scratch,
        .weight_bytes = bytes.weights,
        .pages = layout->pages,
    };
    plan->bytes_per_token = (plan->kv_bytes + plan->index_bytes) / (layout->pages * QSA_PAGE_TOKENS);
    const qsa_operations *device = qsa_operations_of(config);
    if (device->device_bytes != NULL)
        plan->device_bytes = device->device_bytes(layout);
    if (carve.overflow || !qsa_add(plan->kv_bytes + plan->index_bytes, carve.used, &plan->total_bytes) ||
        !qsa_add(plan->total_bytes, plan->device_bytes, &plan->total_bytes) || plan->total_bytes > (uint64_t)INT64_MAX)
        return qsa_fail(QSA_E_LIMIT, "the cache would not fit in 2^63 bytes");
    return QSA_OK;
}

qsa_status qsa_cache_plan(const qsa_config *config, qsa_carve_step carve_step, qsa_memory_plan *out)
{
    assert(carve_step != NULL && out != NULL);
    qsa_layout layout;
    qsa_memory_plan plan;
    QSA_TRY(measure(config, carve_step, &layout, &plan));
    *out = plan;
    return QSA_OK;
}

/* ---- creation ---- */

static qsa_status copy_weight(const qsa_kernels *kernels, const float *from, uint32_t dim, uint32_t layer,
                              const char *name, float *to)
{
    assert(dim > 0 && dim <= QSA_MAX_DIM);
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
    const uint32_t head = cache->layout.config.head_dim, index = cache->layout.config.index_dim;
    for (uint32_t layer = 0; layer < cache->layout.config.layers; layer++) {
        float *to = cache->weights + layer * qsa_weight_floats(&cache->layout.config);
        const qsa_norm_weights none = {0}, *from = norms == NULL ? &none : &norms[layer];
        QSA_TRY(copy_weight(cache->store->kernels, from->q, head, layer, "q", to));
        QSA_TRY(copy_weight(cache->store->kernels, from->k, head, layer, "k", to + head));
        QSA_TRY(copy_weight(cache->store->kernels, from->index_q, index, layer, "index_q", to + 2 * head));
        QSA_TRY(copy_weight(cache->store->kernels, from->index_k, index, layer, "index_k", to + 2 * head + index));
    }
    return QSA_OK;
}

/* Takes pages from 0 upwards, so that a lone sequence scans as one stream. */
static void init_pages(qsa_cache *cache)
{
    const uint32_t pages = (uint32_t)cache->layout.pages;
    for (uint32_t page = 0; page < pages; page++) {
        cache->references[page] = cache->chunk_of[page] = 0;
        cache->free_pages[page] = pages - 1 - page;
    }
    cache->n_free = pages;
}

static void init_tables(qsa_cache *cache)
{
    const uint64_t directory = qsa_directory_limit(cache->layout.pages);
    for (uint32_t chunk = 0; chunk < cache->n_chunks; chunk++) {
        cache->chunk_references[chunk] = 0;
        cache->free_chunks[chunk] = cache->n_chunks - 1 - chunk;
    }
    cache->n_free_chunks = cache->n_chunks;
    memset(cache->chunk_entries, 0, (size_t)cache->n_chunks * QSA_CHUNK_PAGES * sizeof(uint32_t));
    for (uint32_t slot = 0; slot < cache->layout.config.max_sequences; slot++)
        cache->sequences[slot] = (qsa_sequence){.table = {cache->chunk_entries, cache->directories + slot * directory}};
    cache->spare = cache->directories + cache->layout.config.max_sequences * directory;
}

static qsa_status init_cache(qsa_cache *cache, const qsa_config *config)
{
    const char *wanted = "";
    cache->store->kernels = qsa_kernels_choose(&wanted);
    if (cache->store->kernels == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED,
                        "QSA_ISA=%s: not one of scalar, avx2, avx512, neon that this processor and build have", wanted);
    QSA_TRY(qsa_rotary_init(config, &cache->rotary));
    QSA_TRY(copy_weights(cache, config->norms));
    init_pages(cache);
    init_tables(cache);
    cache->triples = qsa_allocate(&cache->allocator, cache->layout.triple_bytes);
    if (cache->triples == NULL)
        return qsa_fail(QSA_E_MEMORY, "no memory for %" PRIu64 " bytes of rotary triples", cache->layout.triple_bytes);
    return cache->store->operations->open(cache->store);
}

qsa_status qsa_cache_make(const qsa_config *config, qsa_carve_step carve_step, qsa_cache **out)
{
    assert(carve_step != NULL && out != NULL);
    qsa_layout layout;
    qsa_memory_plan plan;
    QSA_TRY(measure(config, carve_step, &layout, &plan));
    const qsa_allocator allocator = config->allocator == NULL ? qsa_default_allocator : *config->allocator;
    const uint64_t bytes = plan.table_bytes + plan.weight_bytes + plan.scratch_bytes;
    qsa_carve carve = {.base = qsa_allocate(&allocator, bytes)};
    if (carve.base == NULL)
        return qsa_fail(QSA_E_MEMORY, "no memory for %" PRIu64 " bytes of tables and working memory", bytes);
    carved_bytes carved;
    qsa_cache *cache = carve_cache(&carve, &layout, carve_step, &carved);
    assert(cache->carved_bytes == bytes);
    cache->allocator = allocator;
    qsa_status status = init_cache(cache, config);
    if (status != QSA_OK) {
        qsa_cache_destroy(cache);
        return status;
    }
    *out = cache;
    return QSA_OK;
}

void qsa_cache_destroy(qsa_cache *cache)
{
    if (cache == NULL || cache->calls_host)
        return;
    cache->calls_host = true; /* its allocator's release */
    const qsa_allocator allocator = cache->allocator;
    cache->store->operations->close(cache->store);
    qsa_release(&allocator, cache->triples, cache->layout.triple_bytes);
    qsa_release(&allocator, cache, cache->carved_bytes);
}

/* ---- configuration and counters ---- */

qsa_status qsa_cache_config(const qsa_cache *cache, qsa_config *out_config)
{
    if (cache == NULL || out_config == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "config: NULL argument");
    *out_config = cache->layout.config;
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
