/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 0: the new tokens' input is checked; K, V and raw keys are stored; completed groups are pooled.
 *
 * The unit of work is a group that receives new tokens, so that a group's tokens and its pooled key belong to one part
 * and no barrier is needed between storing and pooling. A part goes through the tokens of its units in spans, several
 * tokens at once, and then pools its groups, several at once: chains of norms run side by side. */
#include "base/limits.h"
#include "device/host/host.h"
#include "device/values.h"

/* ---- what a part goes through ---- */

/* Consecutive tokens of the step. */
typedef struct span {
    uint32_t first, n;
} span;

static const float *row_of(const qsa_strided *tensor, uint32_t token, uint32_t head)
{
    return tensor->data + token * tensor->token_stride + head * tensor->head_stride;
}

static qsa_place place_of(const qsa_batch *batch, uint32_t token)
{
    const qsa_batch_entry *entry = qsa_batch_entry_of(batch, token);
    return qsa_batch_place(entry, entry->stored + (token - entry->first_token));
}

static void refuse(const qsa_batch *batch, uint32_t layer, uint32_t token, enum qsa_input input)
{
    uint32_t entry = batch->token_entry[token];
    qsa_refuse(batch->refusals, layer, entry, token - batch->entries[entry].first_token, input);
}

/* ---- checking ---- */

/* Tokens of a span before the first that may not enter. */
static uint32_t count_finite(const qsa_kernels *kernels, const qsa_strided *tensor, span tokens, uint32_t heads,
                             uint32_t dim)
{
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

/* Looks at every input element of a span once, tensor by tensor. Returns how many of its tokens come before the first
 * that is refused; among refusals the lowest counts, so that the order of tensors cannot be seen. */
static uint32_t accept_span(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, span tokens)
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
    uint32_t accepted = tokens.n;
    for (int i = QSA_INPUT_Q; i <= QSA_INPUT_RAW_KEY; i++) {
        if (io->out.data == NULL && (i == QSA_INPUT_Q || i == QSA_INPUT_INDEX_Q))
            continue;
        const uint32_t n = count_finite(store->base.kernels, inputs[i].tensor, tokens, inputs[i].heads, inputs[i].dim);
        if (n < tokens.n)
            refuse(batch, io->layer, tokens.first + n, (enum qsa_input)i);
        accepted = n < accepted ? n : accepted;
    }
    return accepted;
}

/* ---- storing ---- */

/* k of a span, normed and rotated, in working memory; token t of the span is its token t. Whatever there is more of,
 * tokens or heads, goes through the kernel together. */
static qsa_strided norm_keys(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io,
                             const qsa_part *part, span tokens)
{
    const qsa_store *base = &store->base;
    const qsa_strided *in = &io->tensors.k;
    const uint32_t heads = base->config->kv_heads, dim = base->config->head_dim, pairs = base->rotary->pairs;
    qsa_norm_rotate_call call = {
        .dim = dim, .weight = qsa_store_weights(base, io->layer).k, .eps = base->config->eps, .pairs = pairs};
    call.cos = qsa_batch_cos_sin(batch, tokens.first, pairs);
    call.sin = call.cos + pairs;
    call.out = part->k;
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
        return (qsa_strided){part->k, (size_t)heads * dim, dim};
    }
    call.heads = tokens.n;
    call.stride = in->token_stride;
    call.angle_stride = 2 * (size_t)pairs;
    for (uint32_t h = 0; h < heads; h++) {
        call.x = row_of(in, tokens.first, h);
        base->kernels->norm_rotate(&call);
        call.out += (size_t)tokens.n * dim;
    }
    return (qsa_strided){part->k, dim, (size_t)tokens.n * dim};
}

/* Tokens before the first that the K/V type cannot hold. */
static uint32_t count_storable(const qsa_host_store *store, const qsa_strided *tensor, span tokens)
{
    for (uint32_t t = 0; t < tokens.n; t++)
        for (uint32_t h = 0; h < store->base.config->kv_heads; h++)
            if (!qsa_storable(store->base.kernels, store->base.layout, row_of(tensor, tokens.first + t, h)))
                return t;
    return tokens.n;
}

/* One token, or the four of a block if they are there: returns how many. */
static uint32_t store_keys(const qsa_host_store *store, const qsa_batch *batch, uint32_t layer, span tokens,
                           const qsa_strided *k, uint32_t t)
{
    const qsa_layout *layout = store->base.layout;
    const uint32_t token = tokens.first + t, last = token + QSA_BLOCK_TOKENS - 1, end = tokens.first + tokens.n;
    const qsa_place place = place_of(batch, token);
    const bool is_block =
        place.slot % QSA_BLOCK_TOKENS == 0 && last < end && batch->token_entry[last] == batch->token_entry[token];
    uint8_t *page = qsa_host_page(store, QSA_ARENA_KV, layer, place.page);
    for (uint32_t h = 0; h < store->base.config->kv_heads; h++)
        if (is_block)
            qsa_store_k_block(store->base.kernels, layout, page, place.slot, h, row_of(k, t, h), k->token_stride);
        else
            qsa_store_k(store->base.kernels, layout, page, place.slot, h, row_of(k, t, h));
    return is_block ? QSA_BLOCK_TOKENS : 1;
}

static void store_values(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t token)
{
    const qsa_place place = place_of(batch, token);
    uint8_t *page = qsa_host_page(store, QSA_ARENA_KV, io->layer, place.page);
    for (uint32_t h = 0; h < store->base.config->kv_heads; h++)
        qsa_store_v(store->base.kernels, store->base.layout, page, place.slot, h, row_of(&io->tensors.v, token, h));
    qsa_store_raw(store->base.layout, qsa_host_page(store, QSA_ARENA_RAW, io->layer, place.page), place.slot,
                  row_of(&io->tensors.raw_key, token, 0));
}

/* False, with the refusal recorded, if a token may not enter or the K/V type cannot hold it. */
static bool append_span(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io,
                        const qsa_part *part, span tokens)
{
    const uint32_t n = tokens.n;
    tokens.n = accept_span(store, batch, io, tokens);
    const qsa_strided k = norm_keys(store, batch, io, part, tokens);
    const uint32_t k_fits = count_storable(store, &k, (span){0, tokens.n});
    const uint32_t v_fits = count_storable(store, &io->tensors.v, (span){tokens.first, k_fits});
    if (k_fits < tokens.n)
        refuse(batch, io->layer, tokens.first + k_fits, QSA_INPUT_K_STORED);
    if (v_fits < k_fits)
        refuse(batch, io->layer, tokens.first + v_fits, QSA_INPUT_V_STORED);
    tokens.n = v_fits;
    for (uint32_t t = 0; t < tokens.n;)
        t += store_keys(store, batch, io->layer, tokens, &k, t);
    for (uint32_t t = 0; t < tokens.n; t++)
        store_values(store, batch, io, tokens.first + t);
    return tokens.n == n;
}

/* ---- pooling ---- */

void qsa_host_pool(qsa_host_store *store, uint32_t layer, const qsa_part *part, const qsa_group *groups, uint32_t n)
{
    const qsa_store *base = &store->base;
    const qsa_layout *layout = base->layout;
    const qsa_pool_rule rule = qsa_store_pool_rule(base, layer);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *page = qsa_host_page(store, QSA_ARENA_RAW, layer, groups[i].first.page);
        for (uint32_t t = 0; t < rule.ratio; t++)
            qsa_load_raw(layout, page, groups[i].first.slot + t, part->raw + (size_t)t * rule.dim);
        qsa_pool_mean(&rule, part->raw, part->means + (size_t)i * rule.dim);
        qsa_pool_angles(&rule, groups[i].cos_sin, part->angles + (size_t)i * 2 * rule.pairs);
    }
    qsa_pool_finish(base->kernels, &rule, n, part->means, part->angles, part->pooled);
    for (uint32_t i = 0; i < n; i++)
        qsa_store_pooled(layout, qsa_host_page(store, QSA_ARENA_POOLED, layer, groups[i].first.page),
                         groups[i].first.slot, part->pooled + (size_t)i * rule.dim);
}

/* Pools the complete groups of units [begin, end); returns how many. */
static uint64_t pool_units(qsa_host_store *store, const qsa_batch *batch, uint32_t layer, const qsa_part *part,
                           uint64_t begin, uint64_t end)
{
    qsa_group groups[QSA_POOLED_AT_ONCE];
    uint64_t pooled = 0;
    uint32_t n = 0;
    for (uint64_t u = begin; u < end; u++) {
        const qsa_unit *unit = &batch->units[u];
        if (unit->complete)
            groups[n++] =
                (qsa_group){unit->first, qsa_batch_cos_sin(batch, unit->rotary_row, store->base.rotary->pairs)};
        if (n == QSA_POOLED_AT_ONCE || (u + 1 == end && n > 0)) {
            qsa_host_pool(store, layer, part, groups, n);
            pooled += n;
            n = 0;
        }
    }
    return pooled;
}

void qsa_host_append(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts)
{
    uint64_t begin, end;
    const qsa_part *own = &store->parts[part];
    qsa_rests_reset(store, part);
    qsa_share(batch->n_units, part, parts, &begin, &end);
    if (begin == end)
        return;
    const qsa_unit *last = &batch->units[end - 1];
    const uint32_t end_token = last->first_token + last->tokens, most = qsa_span_limit(store->base.config);
    for (uint32_t token = batch->units[begin].first_token; token < end_token; token += most) {
        const uint32_t n = end_token - token < most ? end_token - token : most;
        if (!append_span(store, batch, io, own, (span){token, n}))
            return; /* units are in order of entry and token: this is the part's lowest refusal */
    }
    const uint64_t pooled = pool_units(store, batch, io->layer, own, begin, end);
    atomic_fetch_add_explicit(&store->base.work->keys_pooled, pooled, memory_order_relaxed);
}
