/* SPDX-License-Identifier: Apache-2.0 */
/* A step on the device: uploads its description once, then makes at most five launches per layer. Projections and
 * tables go up; output and one word of refusals come down. */
#include "device/opencl/store.h"

#include <assert.h>
#include <string.h>

static opencl_store *store_of(qsa_store *base)
{
    return (opencl_store *)(void *)base;
}

static uint64_t candidates_of(const qsa_query *query)
{
    return query->end_group - query->first_group;
}

/* ---- begin ---- */

/* Collects the chunks of the step's page tables, each once however many sequences share it. Returns how many. */
static uint32_t gather_chunks(opencl_store *store, const qsa_batch *batch)
{
    assert(batch->n_entries > 0 && batch->n_tokens <= store->base.config->max_step_tokens);
    uint32_t n = 0;
    store->stamp++;
    for (uint32_t e = 0; e < batch->n_entries; e++) {
        const qsa_table *table = &batch->entries[e].table;
        for (uint32_t c = 0; c < batch->entries[e].n_chunks; c++) {
            const uint32_t chunk = table->chunks[c];
            if (store->chunk_stamp[chunk] == store->stamp)
                continue;
            store->chunk_stamp[chunk] = store->stamp;
            store->chunk_at[chunk] = n;
            memcpy(store->tables + (size_t)n++ * QSA_CHUNK_PAGES, qsa_table_at(table, (uint64_t)c * QSA_CHUNK_PAGES),
                   QSA_CHUNK_PAGES * sizeof(uint32_t));
        }
    }
    return n;
}

static qsa_status upload_tables(opencl_store *store, const qsa_batch *batch)
{
    uint64_t at = (uint64_t)gather_chunks(store, batch) * QSA_CHUNK_PAGES;
    for (uint32_t e = 0; e < batch->n_entries; e++) {
        const qsa_batch_entry *entry = &batch->entries[e];
        store->entries[e] = (device_entry){at, entry->first_slot};
        for (uint32_t c = 0; c < entry->n_chunks; c++)
            store->tables[at++] = store->chunk_at[entry->table.chunks[c]];
    }
    QSA_TRY(opencl_upload(store, store->buffers[BUFFER_TABLES], 0, store->tables, at * sizeof *store->tables));
    return opencl_upload(store, store->buffers[BUFFER_ENTRIES], 0, store->entries,
                         batch->n_entries * sizeof *store->entries);
}

static qsa_status upload_tokens(opencl_store *store, const qsa_batch *batch)
{
    store->any_drops = false;
    for (uint32_t t = 0; t < batch->n_tokens; t++) {
        const qsa_batch_entry *entry = qsa_batch_entry_of(batch, t);
        const qsa_place place = qsa_batch_place(entry, entry->stored + (t - entry->first_token));
        const qsa_query *query = &batch->queries[t];
        store->tokens[t] = (device_token){query->first_group,    query->end_group, query->tail, query->n_tail,
                                          batch->token_entry[t], place.page,       place.slot};
        store->any_drops = store->any_drops || candidates_of(query) > store->plan.budget_groups;
    }
    store->n_groups = 0;
    for (uint32_t u = 0; u < batch->n_tasks; u++)
        if (batch->tasks[u].complete)
            store->groups[store->n_groups++] =
                (device_group){batch->tasks[u].first.page, batch->tasks[u].first.slot, batch->tasks[u].rotary_row};
    QSA_TRY(
        opencl_upload(store, store->buffers[BUFFER_TOKENS], 0, store->tokens, batch->n_tokens * sizeof *store->tokens));
    return opencl_upload(store, store->buffers[BUFFER_GROUPS], 0, store->groups,
                         store->n_groups * sizeof *store->groups);
}

static qsa_status begin(qsa_store *base, const qsa_batch *batch)
{
    static const cl_uint none = CL_UINT_MAX;
    opencl_store *store = store_of(base);
    QSA_TRY(upload_tables(store, batch));
    QSA_TRY(upload_tokens(store, batch));
    QSA_TRY(opencl_upload(store, store->buffers[BUFFER_COS_SIN], 0, batch->cos_sin,
                          (uint64_t)batch->n_rows * 2 * base->rotary->pairs * sizeof(float)));
    store->ranges = opencl_ranges(&store->plan, batch->n_tokens);
    return opencl_upload(store, store->buffers[BUFFER_REFUSED], 0, &none, sizeof none);
}

/* ---- phase 0 ---- */

/* Packs the heads of one token one after another, whatever their stride. Returns where the next tensor goes. */
static float *pack(const qsa_strided *tensor, uint32_t token, uint32_t heads, uint32_t dim, float *to)
{
    for (uint32_t h = 0; h < heads; h++, to += dim)
        memcpy(to, tensor->data + token * tensor->token_stride + h * tensor->head_stride, dim * sizeof *to);
    return to;
}

static qsa_status upload_input(opencl_store *store, const qsa_batch *batch, const qsa_layer_io *io)
{
    const qsa_config *config = store->base.config;
    const qsa_tensors *in = &io->tensors;
    float *to = store->staging;
    for (uint32_t t = 0; t < batch->n_tokens; t++) {
        to = pack(&in->k, t, config->kv_heads, config->head_dim, to);
        to = pack(&in->v, t, config->kv_heads, config->head_dim, to);
        to = pack(&in->raw_key, t, 1, config->index_dim, to);
        if (io->out.data != NULL) {
            to = pack(&in->q, t, config->q_heads, config->head_dim, to);
            to = pack(&in->index_q, t, config->index_heads, config->index_dim, to);
        }
    }
    return opencl_upload(store, store->buffers[BUFFER_IN], 0, store->staging,
                         (uint64_t)(to - store->staging) * sizeof *to);
}

/* Pools groups [n] of `layer`; their rotary rows are on the device. */
static qsa_status pool_layer(opencl_store *store, uint32_t layer, uint32_t n)
{
    opencl_arguments arguments = {.count = 0};
    opencl_memory(&arguments, store->buffers[BUFFER_GROUPS]);
    opencl_number(&arguments, n);
    opencl_memory(&arguments, store->buffers[BUFFER_COS_SIN]);
    opencl_memory(&arguments, store->buffers[BUFFER_WEIGHTS]);
    opencl_number(&arguments, layer);
    opencl_memory(&arguments, opencl_arena(store, layer, QSA_ARENA_RAW));
    opencl_memory(&arguments, opencl_arena(store, layer, QSA_ARENA_POOLED));
    return opencl_launch(store, KERNEL_POOL, &arguments, n);
}

/* Reads the word that append wrote; *out_refused: it refused something. */
static qsa_status read_refusal(opencl_store *store, const qsa_batch *batch, const qsa_layer_io *io, bool *out_refused)
{
    enum { INPUTS = 8 }; /* as in append.cl */
    cl_uint word;
    QSA_TRY(opencl_download(store, store->buffers[BUFFER_REFUSED], 0, &word, sizeof word));
    *out_refused = word != CL_UINT_MAX;
    if (*out_refused) {
        const uint32_t token = word / INPUTS, entry = batch->token_entry[token];
        qsa_refuse(batch->refusals, io->layer, entry, token - batch->entries[entry].first_token,
                   (enum qsa_input)(word % INPUTS));
    }
    return QSA_OK;
}

static qsa_status pool(qsa_store *base, qsa_place first, uint32_t n, const float *cos_sin)
{
    opencl_store *store = store_of(base);
    for (uint32_t g = 0; g < n; g++)
        store->groups[g] = (device_group){first.page, first.slot + g * base->layout->config.ratio, g};
    QSA_TRY(opencl_upload(store, store->buffers[BUFFER_GROUPS], 0, store->groups, n * sizeof *store->groups));
    QSA_TRY(opencl_upload(store, store->buffers[BUFFER_COS_SIN], 0, cos_sin,
                          (uint64_t)n * 2 * base->rotary->pairs * sizeof(float)));
    for (uint32_t layer = 0; layer < base->layout->config.layers; layer++)
        QSA_TRY(pool_layer(store, layer, n));
    QSA_TRY(opencl_finish(store));
    base->work->keys_pooled += (uint64_t)n * base->layout->config.layers;
    return QSA_OK;
}

static qsa_status append(opencl_store *store, const qsa_batch *batch, const qsa_layer_io *io)
{
    QSA_TRY(upload_input(store, batch, io));
    opencl_arguments arguments = {.count = 0};
    opencl_memory(&arguments, store->buffers[BUFFER_IN]);
    opencl_number(&arguments, batch->n_tokens);
    opencl_number(&arguments, io->out.data != NULL);
    opencl_memory(&arguments, store->buffers[BUFFER_TOKENS]);
    opencl_memory(&arguments, store->buffers[BUFFER_COS_SIN]);
    opencl_memory(&arguments, store->buffers[BUFFER_WEIGHTS]);
    opencl_number(&arguments, io->layer);
    opencl_memory(&arguments, opencl_arena(store, io->layer, QSA_ARENA_KV));
    opencl_memory(&arguments, opencl_arena(store, io->layer, QSA_ARENA_RAW));
    opencl_memory(&arguments, store->buffers[BUFFER_REFUSED]);
    QSA_TRY(opencl_launch(store, KERNEL_APPEND, &arguments, batch->n_tokens));
    QSA_TRY(pool_layer(store, io->layer, store->n_groups));
    store->base.work->keys_pooled += store->n_groups;
    bool refused;
    return io->out.data == NULL ? read_refusal(store, batch, io, &refused) : QSA_OK;
}

/* ---- phases 1 and 2 ---- */

static qsa_status scan(opencl_store *store, const qsa_batch *batch, const qsa_layer_io *io)
{
    if (!store->any_drops)
        return QSA_OK;
    opencl_arguments arguments = {.count = 0};
    opencl_memory(&arguments, store->buffers[BUFFER_IN]);
    opencl_number(&arguments, batch->n_tokens);
    opencl_number(&arguments, store->ranges);
    opencl_memory(&arguments, store->buffers[BUFFER_TOKENS]);
    opencl_memory(&arguments, store->buffers[BUFFER_ENTRIES]);
    opencl_memory(&arguments, store->buffers[BUFFER_TABLES]);
    opencl_memory(&arguments, opencl_arena(store, io->layer, QSA_ARENA_POOLED));
    opencl_memory(&arguments, store->buffers[BUFFER_CANDIDATES]);
    opencl_memory(&arguments, store->buffers[BUFFER_PARTIAL]);
    opencl_memory(&arguments, store->buffers[BUFFER_N_PARTIAL]);
    opencl_memory(&arguments, store->buffers[BUFFER_SELECTED]);
    opencl_memory(&arguments, store->buffers[BUFFER_N_SELECTED]);
    QSA_TRY(opencl_launch(store, KERNEL_SCAN, &arguments, (uint64_t)batch->n_tokens * store->ranges));
    uint64_t scored = 0;
    for (uint32_t t = 0; t < batch->n_tokens; t++)
        scored += candidates_of(&batch->queries[t]) > store->plan.budget_groups ? candidates_of(&batch->queries[t]) : 0;
    store->base.work->groups_scored += scored;
    return QSA_OK;
}

static qsa_status merge(opencl_store *store, const qsa_batch *batch)
{
    if (!store->any_drops || store->ranges == 1)
        return QSA_OK;
    opencl_arguments arguments = {.count = 0};
    opencl_number(&arguments, batch->n_tokens);
    opencl_number(&arguments, store->ranges);
    opencl_memory(&arguments, store->buffers[BUFFER_TOKENS]);
    opencl_memory(&arguments, store->buffers[BUFFER_CANDIDATES]);
    opencl_memory(&arguments, store->buffers[BUFFER_PARTIAL]);
    opencl_memory(&arguments, store->buffers[BUFFER_N_PARTIAL]);
    opencl_memory(&arguments, store->buffers[BUFFER_SELECTED]);
    opencl_memory(&arguments, store->buffers[BUFFER_N_SELECTED]);
    return opencl_launch(store, KERNEL_MERGE, &arguments, batch->n_tokens);
}

/* ---- phase 4 ---- */

static qsa_status download_output(opencl_store *store, const qsa_batch *batch, const qsa_output *out)
{
    const qsa_config *config = store->base.config;
    const uint32_t heads = config->q_heads, dim = config->head_dim;
    const float *from = store->staging;
    QSA_TRY(opencl_download(store, store->buffers[BUFFER_OUT], 0, store->staging,
                            (uint64_t)batch->n_tokens * heads * dim * sizeof *from));
    for (uint32_t t = 0; t < batch->n_tokens; t++)
        for (uint32_t h = 0; h < heads; h++, from += dim)
            memcpy(out->data + t * out->token_stride + h * out->head_stride, from, dim * sizeof *from);
    return QSA_OK;
}

/* Counts what the queries read; the batch alone determines it. */
static void count_rows(opencl_store *store, const qsa_batch *batch)
{
    const qsa_config *config = store->base.config;
    uint64_t chosen = 0, tails = 0;
    for (uint32_t t = 0; t < batch->n_tokens; t++) {
        const uint64_t candidates = candidates_of(&batch->queries[t]);
        chosen += candidates < store->plan.budget_groups ? candidates : store->plan.budget_groups;
        tails += batch->queries[t].n_tail;
    }
    store->base.work->groups_chosen += chosen;
    store->base.work->k_rows_read += (chosen * config->ratio + tails) * config->kv_heads;
}

static qsa_status attend(opencl_store *store, const qsa_batch *batch, const qsa_layer_io *io)
{
    const qsa_config *config = store->base.config;
    opencl_arguments arguments = {.count = 0};
    opencl_memory(&arguments, store->buffers[BUFFER_IN]);
    opencl_number(&arguments, batch->n_tokens);
    opencl_memory(&arguments, store->buffers[BUFFER_TOKENS]);
    opencl_memory(&arguments, store->buffers[BUFFER_ENTRIES]);
    opencl_memory(&arguments, store->buffers[BUFFER_TABLES]);
    opencl_memory(&arguments, store->buffers[BUFFER_SELECTED]);
    opencl_memory(&arguments, store->buffers[BUFFER_N_SELECTED]);
    opencl_memory(&arguments, opencl_arena(store, io->layer, QSA_ARENA_KV));
    opencl_memory(&arguments, store->buffers[BUFFER_SLOTS]);
    opencl_memory(&arguments, store->buffers[BUFFER_X]);
    opencl_memory(&arguments, store->buffers[BUFFER_OUT]);
    QSA_TRY(opencl_launch(store, KERNEL_ATTEND, &arguments,
                          (uint64_t)batch->n_tokens * (config->q_heads / store->plan.heads)));
    bool refused;
    QSA_TRY(read_refusal(store, batch, io, &refused));
    if (refused)
        return QSA_OK;
    count_rows(store, batch);
    return download_output(store, batch, &io->out);
}

static qsa_status run_phase(qsa_store *base, const qsa_batch *batch, const qsa_layer_io *io, uint32_t phase,
                            uint32_t part, uint32_t parts)
{
    assert(part < parts && phase < QSA_PHASES);
    opencl_store *store = store_of(base);
    (void)parts; /* the device divides its work itself */
    if (part != 0)
        return QSA_OK;
    if (phase == 0)
        return append(store, batch, io);
    if (phase == 1)
        return scan(store, batch, io);
    if (phase == 2)
        return merge(store, batch);
    return phase == 3 ? QSA_OK : attend(store, batch, io); /* a query is never split here */
}

static qsa_status selection(qsa_store *base, uint32_t token, uint32_t *out_groups, uint32_t *out_n)
{
    opencl_store *store = store_of(base);
    const device_token *told = &store->tokens[token];
    const uint64_t candidates = told->end_group - told->first_group;
    const uint32_t k = store->plan.budget_groups;
    if (candidates <= k) {
        *out_n = (uint32_t)candidates;
        for (uint32_t i = 0; i < *out_n; i++)
            out_groups[i] = (uint32_t)told->first_group + i;
        return QSA_OK;
    }
    *out_n = k; /* more candidates than the budget, so the selection is full */
    return opencl_download(store, store->buffers[BUFFER_SELECTED], (uint64_t)token * k * sizeof *out_groups, out_groups,
                           k * sizeof *out_groups);
}

const qsa_operations qsa_opencl_operations = {
    .name = "opencl",
    .carve = opencl_carve,
    .device_bytes = opencl_device_bytes,
    .open = opencl_open_store,
    .close = opencl_close_store,
    .copy_page = opencl_copy_page,
    .swap_pages = opencl_swap_pages,
    .copy_slots = opencl_copy_slots,
    .pool = pool,
    .view = opencl_view,
    .put = opencl_put,
    .begin = begin,
    .phase = run_phase,
    .selection = selection,
};
