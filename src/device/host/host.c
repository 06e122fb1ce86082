/* SPDX-License-Identifier: Apache-2.0 */
/* The host's table of operations. Once a store is open none of them can fail. */
#include "base/float_env.h"
#include "device/host/phases.h"
#include "device/values.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* ---- memory ---- */

static void carve_scratch(qsa_carve *carve, const qsa_layout *layout, qsa_scratch *out)
{
    const qsa_config *config = &layout->config;
    const uint32_t selected = qsa_selected_limit(config->ratio, config->budget);
    const uint32_t blocks = qsa_block_limit(config->ratio, config->budget);
    const uint32_t capacity = qsa_selection_capacity(config->budget / config->ratio);
    qsa_scratch s;
    s.queries =
        qsa_carve_bytes(carve, (uint64_t)QSA_SCAN_QUERIES * config->index_heads * config->index_dim, sizeof(float));
    s.scores = qsa_carve_bytes(carve, (uint64_t)QSA_SCAN_QUERIES * QSA_SCAN_TILES * layout->page_groups, sizeof(float));
    s.candidates = qsa_carve_bytes(carve, (uint64_t)QSA_SCAN_QUERIES * capacity, sizeof(qsa_candidate));
    s.raw = qsa_carve_bytes(carve, (uint64_t)config->ratio * config->index_dim, sizeof(float));
    s.means = qsa_carve_bytes(carve, (uint64_t)QSA_POOLED_AT_ONCE * config->index_dim, sizeof(float));
    s.pooled = qsa_carve_bytes(carve, (uint64_t)QSA_POOLED_AT_ONCE * config->index_dim, sizeof(float));
    s.angles = qsa_carve_bytes(carve, (uint64_t)QSA_POOLED_AT_ONCE * config->rotary_dim, sizeof(float));
    s.k =
        qsa_carve_bytes(carve, (uint64_t)qsa_append_limit(config) * config->kv_heads * config->head_dim, sizeof(float));
    s.attend.x_stride = qsa_x_stride(blocks);
    s.attend.selected.blocks = qsa_carve_bytes(carve, blocks, sizeof(void *));
    s.attend.selected.v = qsa_carve_bytes(carve, selected, sizeof(void *));
    s.attend.v_from = qsa_carve_bytes(carve, selected, sizeof(void *));
    s.attend.selected.lanes = qsa_carve_bytes(carve, selected, sizeof(uint32_t));
    s.attend.q = qsa_carve_bytes(carve, (uint64_t)QSA_HEADS_AT_ONCE * config->head_dim, sizeof(float));
    s.attend.x = qsa_carve_bytes(carve, (uint64_t)QSA_HEADS_AT_ONCE * s.attend.x_stride, sizeof(float));
    if (out != NULL)
        *out = s;
}

static qsa_store *carve(qsa_carve *carve, const qsa_layout *layout)
{
    const qsa_config *config = &layout->config;
    qsa_host_store *store = qsa_carve_bytes(carve, 1, sizeof *store), local;
    memset(&local, 0, sizeof local);
    const uint64_t tokens = config->max_step_tokens, ranges = QSA_RANGES_LIMIT * (uint64_t)config->max_parts;
    local.k = config->budget / config->ratio;
    local.capacity = qsa_selection_capacity(local.k);
    local.selected = qsa_carve_bytes(carve, tokens * local.k, sizeof(uint32_t));
    local.n_selected = qsa_carve_bytes(carve, tokens, sizeof(uint32_t));
    local.ranges = qsa_carve_bytes(carve, ranges, sizeof(qsa_range));
    local.few = qsa_carve_bytes(carve, ranges * qsa_few_limit(local.k, 2), sizeof(qsa_candidate));
    const uint64_t x_floats = qsa_x_stride(qsa_block_limit(config->ratio, config->budget));
    local.qk = qsa_carve_bytes(
        carve, (uint64_t)(config->max_parts - 1) * (config->q_heads / config->kv_heads) * x_floats, sizeof(float));
    local.scratch = qsa_carve_bytes(carve, config->max_parts, sizeof(qsa_scratch));
    local.next = qsa_carve_bytes(carve, (uint64_t)QSA_STEALING_COUNT * config->max_parts, sizeof(qsa_next_task));
    for (uint32_t i = 0; i < config->max_parts; i++)
        carve_scratch(carve, layout, local.scratch == NULL ? NULL : &local.scratch[i]);
    if (store == NULL)
        return NULL;
    *store = local;
    return &store->base;
}

static qsa_status open_store(qsa_store *base)
{
    qsa_host_store *store = qsa_host(base);
    for (int i = 0; i < QSA_ARENA_COUNT; i++) {
        store->arena[i] = qsa_allocate(base->allocator, base->layout->arena_bytes[i]);
        if (store->arena[i] == NULL)
            return qsa_fail(QSA_E_MEMORY, "no memory for %" PRIu64 " bytes of pages", base->layout->arena_bytes[i]);
    }
    return QSA_OK;
}

static void close_store(qsa_store *base)
{
    qsa_host_store *store = qsa_host(base);
    for (int i = 0; i < QSA_ARENA_COUNT; i++)
        qsa_release(base->allocator, store->arena[i], base->layout->arena_bytes[i]);
}

/* ---- pages ---- */

static qsa_status copy_page(qsa_store *base, uint32_t from, uint32_t to)
{
    assert(from != to);
    const qsa_host_store *store = qsa_host(base);
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++)
        for (uint32_t layer = 0; layer < base->layout->config.layers; layer++)
            memcpy(qsa_host_page(store, arena, layer, to), qsa_host_page(store, arena, layer, from),
                   (size_t)base->layout->page_stride[arena]);
    return QSA_OK;
}

static void swap_bytes(uint8_t *a, uint8_t *b, size_t bytes)
{
    uint8_t buffer[4096];
    for (size_t at = 0; at < bytes; at += sizeof buffer) {
        size_t n = bytes - at < sizeof buffer ? bytes - at : sizeof buffer;
        memcpy(buffer, a + at, n);
        memcpy(a + at, b + at, n);
        memcpy(b + at, buffer, n);
    }
}

static qsa_status swap_pages(qsa_store *base, uint32_t a, uint32_t b)
{
    const qsa_host_store *store = qsa_host(base);
    for (int arena = 0; arena < QSA_ARENA_COUNT; arena++)
        for (uint32_t layer = 0; layer < base->layout->config.layers; layer++)
            swap_bytes(qsa_host_page(store, arena, layer, a), qsa_host_page(store, arena, layer, b),
                       (size_t)base->layout->page_stride[arena]);
    return QSA_OK;
}

static qsa_status copy_slots(qsa_store *base, qsa_place from, qsa_place to, uint32_t n)
{
    assert(n > 0 && from.slot + n <= QSA_PAGE_TOKENS && to.slot + n <= QSA_PAGE_TOKENS);
    const qsa_host_store *store = qsa_host(base);
    const qsa_layout *layout = base->layout;
    const size_t raw_bytes = (size_t)layout->config.index_dim * layout->index_bytes;
    for (uint32_t layer = 0; layer < layout->config.layers; layer++) {
        const uint8_t *kv_from = qsa_host_page(store, QSA_ARENA_KV, layer, from.page);
        uint8_t *kv_to = qsa_host_page(store, QSA_ARENA_KV, layer, to.page);
        for (uint32_t s = 0; s < n; s++)
            qsa_copy_kv(layout, kv_from, from.slot + s, kv_to, to.slot + s);
        memcpy(qsa_host_page(store, QSA_ARENA_RAW, layer, to.page) + to.slot * raw_bytes,
               qsa_host_page(store, QSA_ARENA_RAW, layer, from.page) + from.slot * raw_bytes, n * raw_bytes);
    }
    return QSA_OK;
}

static qsa_status pool(qsa_store *base, qsa_place first, uint32_t n, const float *cos_sin)
{
    assert(n > 0 && first.slot % base->layout->config.ratio == 0);
    qsa_host_store *store = qsa_host(base);
    qsa_float_env saved = qsa_float_env_enter();
    for (uint32_t g = 0, count; g < n; g += count) {
        qsa_group groups[QSA_POOLED_AT_ONCE];
        count = n - g < QSA_POOLED_AT_ONCE ? n - g : QSA_POOLED_AT_ONCE;
        for (uint32_t i = 0; i < count; i++)
            groups[i] = (qsa_group){{first.page, first.slot + (g + i) * base->layout->config.ratio},
                                    cos_sin + (size_t)(g + i) * 2 * base->rotary->pairs};
        for (uint32_t layer = 0; layer < base->layout->config.layers; layer++)
            qsa_host_pool(store, layer, &store->scratch[0], groups, count);
    }
    qsa_float_env_leave(saved);
    base->work->keys_pooled += (uint64_t)n * base->layout->config.layers;
    return QSA_OK;
}

static qsa_status view(qsa_store *base, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out)
{
    *out = qsa_host_page(qsa_host(base), arena, layer, page);
    return QSA_OK;
}

static qsa_status put(qsa_store *base, enum qsa_arena arena, uint32_t layer, uint32_t page)
{
    (void)base, (void)arena, (void)layer, (void)page; /* the view was the page */
    return QSA_OK;
}

/* ---- a step ---- */

static qsa_status begin(qsa_store *base, const qsa_batch *batch)
{
    (void)base, (void)batch;
    return QSA_OK;
}

static qsa_status phase(qsa_store *base, const qsa_batch *batch, const qsa_layer_io *io, uint32_t number, uint32_t part,
                        uint32_t parts)
{
    static void (*const phases[QSA_PHASES])(const qsa_host_context *) = {qsa_host_append, qsa_host_scan,
                                                                         qsa_host_select, qsa_host_qk, qsa_host_attend};
    assert(number < QSA_PHASES && part < parts);
    if (parts > base->config->max_parts)
        parts = base->config->max_parts;
    if (part >= parts) /* more parts than scratch was planned for: the others do the work */
        return QSA_OK;
    qsa_host_store *store = qsa_host(base);
    const qsa_host_context context = {store, batch, io, &store->scratch[part], part, parts};
    qsa_float_env saved = qsa_float_env_enter();
    phases[number](&context);
    qsa_float_env_leave(saved);
    return QSA_OK;
}

static qsa_status selection(qsa_store *base, uint32_t token, uint32_t *out_groups, uint32_t *out_n)
{
    assert(token < base->config->max_step_tokens);
    const qsa_host_store *store = qsa_host(base);
    *out_n = store->n_selected[token];
    memcpy(out_groups, store->selected + (size_t)token * store->k, *out_n * sizeof(uint32_t));
    return QSA_OK;
}

const qsa_operations qsa_host_operations = {
    .name = "host",
    .carve = carve,
    .open = open_store,
    .close = close_store,
    .copy_page = copy_page,
    .swap_pages = swap_pages,
    .copy_slots = copy_slots,
    .pool = pool,
    .view = view,
    .put = put,
    .begin = begin,
    .phase = phase,
    .selection = selection,
};
