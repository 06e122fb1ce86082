/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 0: the new tokens' input is checked; K, V and raw keys are stored; completed groups are pooled.
 *
 * The unit of work is a group that receives new tokens, so that a group's tokens and its pooled key belong to one part
 * and no barrier is needed between storing and pooling. */
#include "base/elementary.h"
#include "base/limits.h"
#include "device/host/host.h"
#include "device/values.h"

static const float *row_of(const qsa_strided *tensor, uint32_t token, uint32_t head)
{
    return tensor->data + token * tensor->token_stride + head * tensor->head_stride;
}

static bool heads_finite(const qsa_kernels *kernels, const qsa_strided *tensor, uint32_t token, uint32_t heads,
                         uint32_t dim)
{
    for (uint32_t h = 0; h < heads; h++)
        if (kernels->check(row_of(tensor, token, h), dim, QSA_INPUT_LIMIT) < dim)
            return false;
    return true;
}

static void refuse(const qsa_batch *batch, uint32_t layer, uint32_t token, enum qsa_input input)
{
    uint32_t entry = batch->token_entry[token];
    qsa_refuse(batch->refusals, layer, entry, token - batch->entries[entry].first_token, input);
}

/* Looks at every input element of a token once. */
static bool accept_token(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t token)
{
    const qsa_config *config = store->base.config;
    const qsa_tensors *in = &io->tensors;
    const struct {
        const qsa_strided *tensor;
        uint32_t heads, dim;
    } inputs[] = {[QSA_INPUT_Q] = {&in->q, config->q_heads, config->head_dim},
                  [QSA_INPUT_K] = {&in->k, config->kv_heads, config->head_dim},
                  [QSA_INPUT_V] = {&in->v, config->kv_heads, config->head_dim},
                  [QSA_INPUT_INDEX_Q] = {&in->index_q, config->index_heads, config->index_dim},
                  [QSA_INPUT_RAW_KEY] = {&in->raw_key, 1, config->index_dim}};
    for (int i = QSA_INPUT_Q; i <= QSA_INPUT_RAW_KEY; i++) {
        if (io->out.data == NULL && (i == QSA_INPUT_Q || i == QSA_INPUT_INDEX_Q))
            continue;
        if (!heads_finite(store->base.kernels, inputs[i].tensor, token, inputs[i].heads, inputs[i].dim)) {
            refuse(batch, io->layer, token, (enum qsa_input)i);
            return false;
        }
    }
    return true;
}

/* False, with the refusal recorded, if the K/V type cannot hold the token. */
static bool store_token(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                        uint32_t token, qsa_place place)
{
    const qsa_store *base = &store->base;
    const qsa_config *config = base->config;
    const qsa_layout *layout = base->layout;
    const qsa_tensors *in = &io->tensors;
    const uint32_t pairs = base->rotary->pairs;
    const float *table = qsa_batch_cos_sin(batch, token, pairs);
    uint8_t *k_page = qsa_host_page(store, QSA_ARENA_K, io->layer, place.page);
    uint8_t *v_page = qsa_host_page(store, QSA_ARENA_V, io->layer, place.page);
    base->kernels->norm_rotate(row_of(&in->k, token, 0), in->k.head_stride, config->kv_heads, config->head_dim,
                               qsa_store_weights(base, io->layer).k, config->eps, pairs, table, table + pairs, false,
                               part->k);
    bool k_fits = true, v_fits = true; /* of all heads: refusals are ordered by tensor, not by head */
    for (uint32_t h = 0; h < config->kv_heads; h++) {
        k_fits = k_fits && qsa_storable(layout, part->k + (size_t)h * config->head_dim);
        v_fits = v_fits && qsa_storable(layout, row_of(&in->v, token, h));
    }
    if (!k_fits || !v_fits) {
        refuse(batch, io->layer, token, k_fits ? QSA_INPUT_V_STORED : QSA_INPUT_K_STORED);
        return false;
    }
    for (uint32_t h = 0; h < config->kv_heads; h++) {
        qsa_store_k(base->kernels, layout, k_page, place.slot, h, part->k + (size_t)h * config->head_dim);
        qsa_store_v(base->kernels, layout, v_page, place.slot, h, row_of(&in->v, token, h));
    }
    qsa_store_raw(layout, qsa_host_page(store, QSA_ARENA_RAW, io->layer, place.page), place.slot,
                  row_of(&in->raw_key, token, 0));
    return true;
}

void qsa_host_pool(qsa_host_store *store, uint32_t layer, qsa_place first, const float *cos_sin, float *raw)
{
    const qsa_store *base = &store->base;
    float pooled[QSA_MAX_DIM];
    const qsa_pool_rule rule = qsa_store_pool_rule(base, layer);
    qsa_pool_page_group(base->kernels, base->layout, &rule, qsa_host_page(store, QSA_ARENA_RAW, layer, first.page),
                        first.slot, cos_sin, raw, pooled);
    qsa_store_pooled(base->layout, qsa_host_page(store, QSA_ARENA_POOLED, layer, first.page), first.slot, pooled);
}

/* Stores the new tokens of one group, then pools it if it is complete. False at the first refused token. */
static bool append_unit(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                        const qsa_unit *unit)
{
    for (uint32_t t = 0; t < unit->tokens; t++) {
        const qsa_place place = {unit->first.page, unit->first.slot + unit->skipped + t};
        if (!accept_token(store, batch, io, unit->first_token + t) ||
            !store_token(store, batch, io, part, unit->first_token + t, place))
            return false;
    }
    if (unit->complete)
        qsa_host_pool(store, io->layer, unit->first,
                      qsa_batch_cos_sin(batch, unit->rotary_row, store->base.rotary->pairs), part->raw);
    return true;
}

void qsa_host_append(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts)
{
    uint64_t begin, end, pooled = 0;
    qsa_rests_reset(store, part);
    qsa_share(batch->n_units, part, parts, &begin, &end);
    for (uint64_t unit = begin; unit < end; unit++) {
        if (!append_unit(store, batch, io, &store->parts[part], &batch->units[unit]))
            return; /* units are in order of entry and token: this is the part's lowest refusal */
        pooled += batch->units[unit].complete;
    }
    atomic_fetch_add_explicit(&store->base.work->keys_pooled, pooled, memory_order_relaxed);
}
