/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 3: attention. The unit of work is (query, kv head, block of its query heads), in order, so that a part goes
 * through neighbouring queries and finds their K and V in cache. */
#include "step/step.h"

static uint32_t ceil_divide(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* Blocks of query heads per kv head: as few as working memory allows, as many as keep all parts busy. */
static uint32_t head_blocks(const qsa_step *step, uint32_t parts)
{
    const qsa_config *config = &step->cache->config;
    uint32_t shared = config->q_heads / config->kv_heads;
    uint32_t blocks = ceil_divide(shared, QSA_HEADS_AT_ONCE);
    uint32_t wanted = ceil_divide(parts, (uint64_t)step->n_tokens * config->kv_heads);
    if (wanted > shared)
        wanted = shared;
    return wanted > blocks ? wanted : blocks;
}

static void load_heads(const qsa_step *step, uint32_t token, uint32_t first_head, uint32_t heads, float *q)
{
    const qsa_cache *cache = step->cache;
    const qsa_config *config = &cache->config;
    const qsa_strided *in = &step->layer.tensors.q;
    const float *table = qsa_token_cos_sin(step, token), c = qsa_query_scale(config->head_dim);
    const uint32_t pairs = cache->rotary.pairs;
    cache->kernels->norm_rotate(in->data + token * in->token_stride + first_head * in->head_stride, in->head_stride,
                                heads, config->head_dim, qsa_cache_weights(cache, step->layer.layer).q, config->eps,
                                pairs, table, table + pairs, false, q);
    for (uint32_t i = 0; i < heads * config->head_dim; i++)
        q[i] *= c;
}

/* Query heads [first, first + heads) of a token over the row that was gathered. */
static void attend_unit(const qsa_step *step, qsa_part *part, uint32_t token, uint32_t first, uint32_t heads)
{
    const qsa_cache *cache = step->cache;
    const qsa_output *out = &step->layer.out;
    load_heads(step, token, first, heads, part->attend.q);
    qsa_attend_heads(cache->kernels, cache->layout.kv_element, heads, cache->config.head_dim, &part->attend,
                     out->data + token * out->token_stride + first * out->head_stride, out->head_stride);
}

static void gather_row(const qsa_step *step, qsa_part *part, uint32_t token, uint32_t kv_head)
{
    const qsa_query query = qsa_query_of(step, token);
    qsa_row_gather(step->cache, qsa_entry_of(step, token)->sequence, step->layer.layer, kv_head,
                   step->selected + (size_t)token * step->k, step->n_selected[token], query.tail, query.n_tail,
                   &part->attend.row);
}

void qsa_phase_attend(qsa_step *step, uint32_t part, uint32_t parts)
{
    qsa_cache *cache = step->cache;
    const qsa_config *config = &cache->config;
    const uint32_t shared = config->q_heads / config->kv_heads, blocks = head_blocks(step, parts);
    qsa_part *memory = &step->parts[part];
    uint64_t begin, end, rows = 0, chosen = 0, gathered = UINT64_MAX;
    qsa_share((uint64_t)step->n_tokens * config->kv_heads * blocks, part, parts, &begin, &end);
    for (uint64_t unit = begin; unit < end; unit++) {
        uint32_t block = (uint32_t)(unit % blocks), kv_head = (uint32_t)(unit / blocks % config->kv_heads);
        uint32_t token = (uint32_t)(unit / blocks / config->kv_heads);
        if (unit / blocks != gathered)
            gather_row(step, memory, token, kv_head);
        gathered = unit / blocks;
        uint64_t first, last;
        qsa_share(shared, block, blocks, &first, &last);
        attend_unit(step, memory, token, kv_head * shared + (uint32_t)first, (uint32_t)(last - first));
        if (block == 0) {
            rows += memory->attend.row.n;
            chosen += kv_head == 0 ? step->n_selected[token] : 0;
        }
    }
    atomic_fetch_add_explicit(&cache->work.k_rows_read, rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&cache->work.groups_chosen, chosen, memory_order_relaxed);
}
