/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 0: checks the new tokens' input, stores K, V and raw index keys, pools the groups that are complete.
 *
 * A task is a group that receives new tokens: its tokens and its pooled key belong to one part, and no barrier is
 * needed between storing and pooling. A part goes through the tokens of its tasks, several at once, and then pools its
 * groups, several at once, so that the chains of norms run side by side. */
#include "base/limits.h"
#include "device/host/phases.h"
#include "device/values.h"

#include <assert.h>

/* Consecutive tokens of the step. */
typedef struct token_range {
    uint32_t first, n;
} token_range;

static const float *row_of(const qsa_strided *tensor, uint32_t token, uint32_t head)
{
    return tensor->data + token * tensor->token_stride + head * tensor->head_stride;
}

static qsa_place place_of(const qsa_batch *batch, uint32_t token)
{
    const qsa_batch_entry *entry = qsa_batch_entry_of(batch, token);
    return qsa_batch_place(entry, entry->stored + (token - entry->first_token));
}

static void refuse(const qsa_host_context *c, uint32_t token, enum qsa_input input)
{
    const uint32_t entry = c->batch->token_entry[token];
    qsa_refuse(c->batch->refusals, c->io->layer, entry, token - c->batch->entries[entry].first_token, input);
}

/* ---- checking ---- */

/* Tokens of a range before the first that may not enter. */
static uint32_t count_finite(const qsa_kernels *kernels, const qsa_strided *tensor, token_range tokens, uint32_t heads,
                             uint32_t dim)
{
    assert(heads > 0 && dim > 0);
    if (tensor->head_stride == dim || heads == 1) { /* the heads of a token are one row */
        dim *= heads;
        heads = 1;
    }
    for (uint32_t t = 0; t < tokens.n; t++)
        for (uint32_t h = 0; h < heads; h++)
            if (kernels->check(row_of(tensor, tokens.first + t, h), dim, QSA_INPUT_LIMIT) < dim)
                return t;
    return tokens.n;
}

/* Looks at every input element of a range once, tensor by tensor. Returns how many of its tokens come before the first
 * that is refused; among refusals the lowest counts, so that the order of tensors cannot be seen. */
static uint32_t accept_tokens(const qsa_host_context *c, token_range tokens)
{
    assert(tokens.n > 0 && tokens.first + tokens.n <= c->batch->n_tokens);
    const qsa_config *config = c->store->base.config;
    const qsa_tensors *in = &c->io->tensors;
    const struct {
        const qsa_strided *tensor;
        uint32_t heads, dim;
    } inputs[] = {[QSA_INPUT_Q] = {&in->q, config->q_heads, config->head_dim},
                  [QSA_INPUT_K] = {&in->k, config->kv_heads, config->head_dim},
                  [QSA_INPUT_V] = {&in->v, config->kv_heads, config->head_dim},
                  [QSA_INPUT_INDEX_Q] = {&in->index_q, config->index_heads, config->index_dim},
                  [QSA_INPUT_RAW_KEY] = {&in->raw_key, 1, config->index_dim}};
    uint32_t accepted = tokens.n;
    for (int i = QSA_INPUT_Q; i <= QSA_INPUT_RAW_KEY; i++) {
        if (c->io->out.data == NULL && (i == QSA_INPUT_Q || i == QSA_INPUT_INDEX_Q))
            continue;
        const uint32_t n =
            count_finite(c->store->base.kernels, inputs[i].tensor, tokens, inputs[i].heads, inputs[i].dim);
        if (n < tokens.n)
            refuse(c, tokens.first + n, (enum qsa_input)i);
        accepted = n < accepted ? n : accepted;
    }
    return accepted;
}

/* ---- storing ---- */

/* k of a range, normed and rotated, in scratch; token t of the range is its token t. Whatever there is more of,
 * tokens or heads, goes through the kernel together. */
static qsa_strided norm_keys(const qsa_host_context *c, token_range tokens)
{
    const qsa_store *base = &c->store->base;
    const qsa_strided *in = &c->io->tensors.k;
    const uint32_t heads = base->config->kv_heads, dim = base->config->head_dim, pairs = base->rotary->pairs;
    assert(tokens.n <= qsa_append_limit(base->config));
    qsa_norm_rotate_call call = {
        .dim = dim, .weight = qsa_store_weights(base, c->io->layer).k, .eps = base->config->eps, .pairs = pairs};
    call.cos = qsa_batch_cos_sin(c->batch, tokens.first, pairs);
    call.sin = call.cos + pairs;
    call.out = c->scratch->k;
    if (tokens.n < heads) {
        call.heads = heads;
        call.stride = in->head_stride;
        for (uint32_t t = 0; t < tokens.n; t++) {
            call.x = row_of(in, tokens.first + t, 0);
            base->kernels->norm_rotate(&call);
            call.cos += 2 * pairs;
            call.sin += 2 * pairs;
            call.out += (size_t)heads * dim;
        }
        return (qsa_strided){c->scratch->k, (size_t)heads * dim, dim};
    }
    call.heads = tokens.n;
    call.stride = in->token_stride;
    call.angle_stride = 2 * (size_t)pairs;
    for (uint32_t h = 0; h < heads; h++) {
        call.x = row_of(in, tokens.first, h);
        base->kernels->norm_rotate(&call);
        call.out += (size_t)tokens.n * dim;
    }
    return (qsa_strided){c->scratch->k, dim, (size_t)tokens.n * dim};
}

/* Tokens before the first that the K/V type cannot hold. */
static uint32_t count_storable(const qsa_host_context *c, const qsa_strided *tensor, token_range tokens)
{
    for (uint32_t t = 0; t < tokens.n; t++)
        for (uint32_t h = 0; h < c->store->base.config->kv_heads; h++)
            if (!qsa_storable(c->store->base.kernels, c->store->base.layout, row_of(tensor, tokens.first + t, h)))
                return t;
    return tokens.n;
}

/* One token, or the four of a block if they are there: returns how many. */
static uint32_t store_keys(const qsa_host_context *c, token_range tokens, const qsa_strided *k, uint32_t t)
{
    assert(t < tokens.n);
    const qsa_layout *layout = c->store->base.layout;
    const uint32_t token = tokens.first + t, last = token + QSA_BLOCK_TOKENS - 1, end = tokens.first + tokens.n;
    const qsa_place place = place_of(c->batch, token);
    const bool is_block =
        place.slot % QSA_BLOCK_TOKENS == 0 && last < end && c->batch->token_entry[last] == c->batch->token_entry[token];
    uint8_t *page = qsa_host_page(c->store, QSA_ARENA_KV, c->io->layer, place.page);
    for (uint32_t h = 0; h < c->store->base.config->kv_heads; h++)
        if (is_block)
            qsa_store_k_block(c->store->base.kernels, layout, page, place.slot, h, row_of(k, t, h), k->token_stride);
        else
            qsa_store_k(c->store->base.kernels, layout, page, place.slot, h, row_of(k, t, h));
    return is_block ? QSA_BLOCK_TOKENS : 1;
}

static void store_values(const qsa_host_context *c, uint32_t token)
{
    const qsa_place place = place_of(c->batch, token);
    uint8_t *page = qsa_host_page(c->store, QSA_ARENA_KV, c->io->layer, place.page);
    for (uint32_t h = 0; h < c->store->base.config->kv_heads; h++)
        qsa_store_v(c->store->base.kernels, c->store->base.layout, page, place.slot, h,
                    row_of(&c->io->tensors.v, token, h));
    qsa_store_raw(c->store->base.layout, qsa_host_page(c->store, QSA_ARENA_RAW, c->io->layer, place.page), place.slot,
                  row_of(&c->io->tensors.raw_key, token, 0));
}

/* False, with the refusal recorded, if a token may not enter or the K/V type cannot hold it. */
static bool append_tokens(const qsa_host_context *c, token_range tokens)
{
    const uint32_t n = tokens.n;
    tokens.n = accept_tokens(c, tokens);
    const qsa_strided k = norm_keys(c, tokens);
    const uint32_t k_fits = count_storable(c, &k, (token_range){0, tokens.n});
    const uint32_t v_fits = count_storable(c, &c->io->tensors.v, (token_range){tokens.first, k_fits});
    if (k_fits < tokens.n)
        refuse(c, tokens.first + k_fits, QSA_INPUT_K_STORED);
    if (v_fits < k_fits)
        refuse(c, tokens.first + v_fits, QSA_INPUT_V_STORED);
    tokens.n = v_fits;
    for (uint32_t t = 0; t < tokens.n;)
        t += store_keys(c, tokens, &k, t);
    for (uint32_t t = 0; t < tokens.n; t++)
        store_values(c, tokens.first + t);
    return tokens.n == n;
}

/* ---- pooling ---- */

void qsa_host_pool(qsa_host_store *store, uint32_t layer, const qsa_scratch *scratch, const qsa_group *groups,
                   uint32_t n)
{
    assert(n > 0 && n <= QSA_POOLED_AT_ONCE);
    const qsa_store *base = &store->base;
    const qsa_layout *layout = base->layout;
    const qsa_pool_rule rule = qsa_store_pool_rule(base, layer);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *page = qsa_host_page(store, QSA_ARENA_RAW, layer, groups[i].first.page);
        for (uint32_t t = 0; t < rule.ratio; t++)
            qsa_load_raw(layout, page, groups[i].first.slot + t, scratch->raw + (size_t)t * rule.dim);
        qsa_pool_mean(&rule, scratch->raw, scratch->means + (size_t)i * rule.dim);
        qsa_pool_angles(&rule, groups[i].cos_sin, scratch->angles + (size_t)i * 2 * rule.pairs);
    }
    qsa_pool_finish(base->kernels, &rule, n, scratch->means, scratch->angles, scratch->pooled);
    for (uint32_t i = 0; i < n; i++)
        qsa_store_pooled(layout, qsa_host_page(store, QSA_ARENA_POOLED, layer, groups[i].first.page),
                         groups[i].first.slot, scratch->pooled + (size_t)i * rule.dim);
}

/* Pools the complete groups of tasks [begin, end); returns how many. */
static uint64_t pool_tasks(const qsa_host_context *c, uint64_t begin, uint64_t end)
{
    assert(begin <= end && end <= c->batch->n_tasks);
    qsa_group groups[QSA_POOLED_AT_ONCE];
    uint64_t pooled = 0;
    uint32_t n = 0;
    for (uint64_t task = begin; task < end; task++) {
        const qsa_append_task *one = &c->batch->tasks[task];
        if (one->complete)
            groups[n++] =
                (qsa_group){one->first, qsa_batch_cos_sin(c->batch, one->rotary_row, c->store->base.rotary->pairs)};
        if (n == QSA_POOLED_AT_ONCE || (task + 1 == end && n > 0)) {
            qsa_host_pool(c->store, c->io->layer, c->scratch, groups, n);
            pooled += n;
            n = 0;
        }
    }
    return pooled;
}

void qsa_host_append(const qsa_host_context *c)
{
    const qsa_host_store *store = c->store;
    for (int phase = 0; phase < QSA_STEALING_COUNT; phase++)
        qsa_steal_reset(&store->next[(size_t)phase * store->base.config->max_parts + c->part]);
    uint64_t begin, end;
    qsa_share(c->batch->n_tasks, c->part, c->parts, &begin, &end);
    if (begin == end)
        return;
    const qsa_append_task *last = &c->batch->tasks[end - 1];
    const uint32_t end_token = last->first_token + last->tokens, most = qsa_append_limit(store->base.config);
    for (uint32_t token = c->batch->tasks[begin].first_token; token < end_token; token += most) {
        const uint32_t n = end_token - token < most ? end_token - token : most;
        if (!append_tokens(c, (token_range){token, n}))
            return; /* tasks are in order of entry and token: this is the part's lowest refusal */
    }
    const uint64_t pooled = pool_tasks(c, begin, end);
    atomic_fetch_add_explicit(&store->base.work->keys_pooled, pooled, memory_order_relaxed);
}
