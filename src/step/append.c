/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 0: the new tokens' input is checked; K, V and raw keys are stored; completed groups are pooled.
 *
 * The unit of work is a group that receives new tokens, so that a group's tokens and its pooled key belong to one part
 * and no barrier is needed between storing and pooling. */
#include "base/elementary.h"
#include "base/limits.h"
#include "step/step.h"

static const float *row_of(const qsa_strided *tensor, uint32_t token, uint32_t head)
{
    return tensor->data + token * tensor->token_stride + head * tensor->head_stride;
}

static bool heads_finite(const qsa_cache *cache, const qsa_strided *tensor, uint32_t token, uint32_t heads,
                         uint32_t dim)
{
    for (uint32_t h = 0; h < heads; h++)
        if (cache->kernels->check(row_of(tensor, token, h), dim, QSA_INPUT_LIMIT) < dim)
            return false;
    return true;
}

static void refuse(qsa_step *step, uint32_t token, enum qsa_input input)
{
    uint32_t entry = step->token_entry[token];
    qsa_step_refuse(step, 0, entry, token - step->entries[entry].first_token, input);
}

/* Looks at every input element of a token once. */
static bool accept_token(qsa_step *step, uint32_t token)
{
    const qsa_cache *cache = step->cache;
    const qsa_config *config = &cache->config;
    const qsa_tensors *in = &step->layer.tensors;
    const struct {
        const qsa_strided *tensor;
        uint32_t heads, dim;
    } inputs[] = {[QSA_INPUT_Q] = {&in->q, config->q_heads, config->head_dim},
                  [QSA_INPUT_K] = {&in->k, config->kv_heads, config->head_dim},
                  [QSA_INPUT_V] = {&in->v, config->kv_heads, config->head_dim},
                  [QSA_INPUT_INDEX_Q] = {&in->index_q, config->index_heads, config->index_dim},
                  [QSA_INPUT_RAW_KEY] = {&in->raw_key, 1, config->index_dim}};
    for (int i = QSA_INPUT_Q; i <= QSA_INPUT_RAW_KEY; i++) {
        if (qsa_stores_only(step) && (i == QSA_INPUT_Q || i == QSA_INPUT_INDEX_Q))
            continue;
        if (!heads_finite(cache, inputs[i].tensor, token, inputs[i].heads, inputs[i].dim)) {
            refuse(step, token, (enum qsa_input)i);
            return false;
        }
    }
    return true;
}

/* False, with the error recorded, if the K/V type cannot hold the token. */
static bool store_token(qsa_step *step, const qsa_layer_weights *weights, qsa_part *part, uint32_t token,
                        qsa_place place)
{
    qsa_cache *cache = step->cache;
    const qsa_config *config = &cache->config;
    const qsa_tensors *in = &step->layer.tensors;
    const uint32_t layer = step->layer.layer, pairs = cache->rotary.pairs;
    const float *table = qsa_token_cos_sin(step, token);
    cache->kernels->norm_rotate(row_of(&in->k, token, 0), in->k.head_stride, config->kv_heads, config->head_dim,
                                weights->k, config->eps, pairs, table, table + pairs, false, part->k);
    for (uint32_t h = 0; h < config->kv_heads; h++) {
        const bool k_fits = qsa_storable(&cache->layout, part->k + (size_t)h * config->head_dim);
        if (!k_fits || !qsa_storable(&cache->layout, row_of(&in->v, token, h))) {
            refuse(step, token, k_fits ? QSA_INPUT_V_STORED : QSA_INPUT_K_STORED);
            return false;
        }
        qsa_store_k(cache, layer, place, h, part->k + (size_t)h * config->head_dim);
        qsa_store_v(cache, layer, place, h, row_of(&in->v, token, h));
    }
    qsa_store_raw(cache, layer, place, row_of(&in->raw_key, token, 0));
    return true;
}

/* Stores the new tokens of one group, then pools it if it is complete. False at the first refused token. */
static bool append_group(qsa_step *step, const qsa_layer_weights *weights, qsa_part *part, const qsa_step_entry *entry,
                         uint64_t group)
{
    qsa_cache *cache = step->cache;
    const uint64_t ratio = cache->layout.ratio, first = group * ratio, end = entry->stored + entry->tokens;
    uint64_t from = first > entry->stored ? first : entry->stored, to = first + ratio < end ? first + ratio : end;
    for (uint64_t offset = from; offset < to; offset++) {
        uint32_t token = entry->first_token + (uint32_t)(offset - entry->stored);
        if (!accept_token(step, token) ||
            !store_token(step, weights, part, token, qsa_sequence_place(entry->sequence, offset)))
            return false;
    }
    if (first + ratio <= end) {
        float pooled[QSA_MAX_DIM];
        qsa_place place = qsa_sequence_place(entry->sequence, first);
        qsa_pool_group(cache, step->layer.layer, place, part->raw, pooled);
        qsa_store_pooled(cache, step->layer.layer, place, pooled);
    }
    return true;
}

void qsa_phase_append(qsa_step *step, uint32_t part, uint32_t parts)
{
    qsa_cache *cache = step->cache;
    const qsa_layer_weights weights = qsa_cache_weights(cache, step->layer.layer);
    uint64_t begin, end, pooled = 0;
    qsa_share(step->n_units, part, parts, &begin, &end);
    uint32_t e = 0;
    for (uint64_t unit = begin; unit < end; unit++) {
        while (e + 1 < step->n_entries && step->entries[e + 1].first_unit <= unit)
            e++;
        const qsa_step_entry *entry = &step->entries[e];
        uint64_t group = entry->first_group + (unit - entry->first_unit);
        if (!append_group(step, &weights, &step->parts[part], entry, group))
            return; /* units are in order of entry and token: this is the part's lowest error */
        pooled += (group + 1) * cache->layout.ratio <= entry->stored + entry->tokens;
    }
    atomic_fetch_add_explicit(&cache->work.keys_pooled, pooled, memory_order_relaxed);
}
