/* SPDX-License-Identifier: Apache-2.0 */
/* Reading back: values, the digest, and the check of pooled keys against their raw keys. */
#include "base/float_env.h"
#include "base/hash.h"
#include "cache/cache.h"
#include "device/values.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static qsa_status check_span(const qsa_sequence *sequence, qsa_span span)
{
    if (span.begin < sequence->anchor || span.end < span.begin || span.end > sequence->frontier)
        return qsa_fail(QSA_E_RANGE, "span [%" PRId64 ", %" PRId64 ") is not within [%" PRId64 ", %" PRId64 ")",
                        span.begin, span.end, sequence->anchor, sequence->frontier);
    return QSA_OK;
}

static uint32_t row_width(const qsa_cache *cache, qsa_tensor tensor)
{
    if (tensor == QSA_TENSOR_K || tensor == QSA_TENSOR_V)
        return cache->layout.config.kv_heads * cache->layout.config.head_dim;
    return cache->layout.config.index_dim;
}

/* Row number `row` of a tensor: a token of the run, or a group. */
static qsa_status read_row(const qsa_cache *cache, const qsa_sequence *sequence, uint32_t layer, qsa_tensor tensor,
                           uint64_t row, float *out)
{
    const qsa_layout *layout = &cache->layout;
    assert(layer < layout->config.layers && row < qsa_sequence_tokens(sequence));
    const qsa_place place =
        qsa_sequence_place(sequence, tensor == QSA_TENSOR_POOLED ? row * layout->config.ratio : row);
    uint8_t *page;
    QSA_TRY(qsa_page_view(cache, qsa_tensor_arena(tensor), layer, place.page, &page));
    if (tensor == QSA_TENSOR_RAW)
        qsa_load_raw(layout, page, place.slot, out);
    else if (tensor == QSA_TENSOR_POOLED)
        qsa_load_pooled(layout, page, place.slot, out);
    else
        for (uint32_t head = 0; head < layout->config.kv_heads; head++, out += layout->config.head_dim)
            (tensor == QSA_TENSOR_K ? qsa_load_k : qsa_load_v)(layout, page, place.slot, head, out);
    return QSA_OK;
}

qsa_status qsa_seq_read(const qsa_cache *cache, qsa_seq seq, uint32_t layer, qsa_tensor tensor, qsa_span span,
                        float *out)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    QSA_TRY(check_span(sequence, span));
    if (layer >= cache->layout.config.layers || (unsigned)tensor >= QSA_TENSOR_COUNT || out == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "read: layer %" PRIu32 ", tensor %d or NULL", layer, (int)tensor);
    uint64_t begin = (uint64_t)(span.begin - sequence->anchor), end = (uint64_t)(span.end - sequence->anchor);
    if (tensor == QSA_TENSOR_POOLED) {
        uint32_t ratio = cache->layout.config.ratio;
        if (begin % ratio != 0 || end % ratio != 0)
            return qsa_fail(QSA_E_RANGE,
                            "span [%" PRId64 ", %" PRId64 ") does not hold whole groups of %" PRIu32 " from %" PRId64,
                            span.begin, span.end, ratio, sequence->anchor);
        begin /= ratio;
        end /= ratio;
    }
    size_t width = row_width(cache, tensor);
    for (uint64_t row = begin; row < end; row++)
        QSA_TRY(read_row(cache, sequence, layer, tensor, row, out + (size_t)(row - begin) * width));
    return QSA_OK;
}

/* The triple of a token, absolute. False if a coordinate does not fit in 32 bits. */
static bool absolute(const qsa_triple *relative, int64_t frame, qsa_triple *out)
{
    return !__builtin_add_overflow(relative->t, frame, &out->t) &&
           !__builtin_add_overflow(relative->h, frame, &out->h) && !__builtin_add_overflow(relative->w, frame, &out->w);
}

qsa_status qsa_seq_read_triples(const qsa_cache *cache, qsa_seq seq, qsa_span span, qsa_triple *out)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    QSA_TRY(check_span(sequence, span));
    if (out == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "read: NULL argument");
    const uint64_t first = (uint64_t)(span.begin - sequence->anchor), n = (uint64_t)(span.end - span.begin);
    for (int copies = 0; copies < 2; copies++) /* looks first, so that a refusal writes nothing */
        for (uint64_t i = 0; i < n; i++) {
            qsa_triple triple;
            const qsa_triple *stored = qsa_triple_at(cache, qsa_sequence_place(sequence, first + i));
            if (!absolute(stored, sequence->frame, &triple))
                return qsa_fail(QSA_E_LIMIT,
                                "read: position %" PRId64 ": a coordinate plus the frame %" PRId64
                                " does not fit in 32 bits",
                                span.begin + (int64_t)i, sequence->frame);
            if (copies)
                out[i] = triple;
        }
    return QSA_OK;
}

static qsa_status verify_group(const qsa_cache *cache, const qsa_pool_rule *rule, uint32_t layer, qsa_place first,
                               float *raw, bool *out_same)
{
    assert(layer < cache->layout.config.layers && first.slot % rule->ratio == 0);
    const qsa_layout *layout = &cache->layout;
    float expected[QSA_MAX_DIM], found[QSA_MAX_DIM], cos_sin[QSA_MAX_DIM];
    uint8_t *page;
    QSA_TRY(qsa_page_view(cache, QSA_ARENA_RAW, layer, first.page, &page));
    qsa_page_cos_sin(cache, first, cos_sin);
    qsa_pool_page_group(cache->store->kernels, layout, rule, page, first.slot, cos_sin, raw, expected);
    QSA_TRY(qsa_page_view(cache, QSA_ARENA_POOLED, layer, first.page, &page));
    qsa_load_pooled(layout, page, first.slot, found);
    *out_same = memcmp(expected, found, layout->config.index_dim * sizeof(float)) == 0;
    return QSA_OK;
}

static qsa_status verify_layer(const qsa_cache *cache, const qsa_sequence *sequence, uint32_t layer, uint64_t groups,
                               float *raw)
{
    const qsa_pool_rule rule = qsa_store_pool_rule(cache->store, layer);
    for (uint64_t g = 0; g < groups; g++) {
        bool same;
        QSA_TRY(verify_group(cache, &rule, layer, qsa_sequence_place(sequence, g * cache->layout.config.ratio), raw,
                             &same));
        if (!same)
            return qsa_fail(QSA_E_FORMAT, "layer %" PRIu32 ", group %" PRIu64 ": pooled key differs from its raw keys",
                            layer, g);
    }
    return QSA_OK;
}

static qsa_status verify(const qsa_cache *cache, const qsa_sequence *sequence)
{
    const uint64_t bytes = (uint64_t)cache->layout.config.ratio * cache->layout.config.index_dim * sizeof(float);
    float *raw = qsa_allocate(&cache->allocator, bytes);
    if (raw == NULL)
        return qsa_fail(QSA_E_MEMORY, "verify: no memory for one group");
    const uint64_t groups = qsa_sequence_tokens(sequence) / cache->layout.config.ratio;
    qsa_status status = QSA_OK;
    qsa_float_env saved = qsa_float_env_enter();
    for (uint32_t layer = 0; layer < cache->layout.config.layers && status == QSA_OK; layer++)
        status = verify_layer(cache, sequence, layer, groups, raw);
    qsa_float_env_leave(saved);
    qsa_release(&cache->allocator, raw, bytes);
    return status;
}

qsa_status qsa_seq_verify_index(const qsa_cache *cache, qsa_seq seq)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    qsa_cache_hold(cache);
    const qsa_status status = verify(cache, sequence);
    qsa_cache_release(cache);
    return status;
}

static qsa_status digest_tensor(const qsa_cache *cache, const qsa_sequence *sequence, qsa_tensor tensor, uint64_t rows,
                                float *row, qsa_hash *state)
{
    size_t bytes = row_width(cache, tensor) * sizeof(float);
    for (uint32_t layer = 0; layer < cache->layout.config.layers; layer++)
        for (uint64_t r = 0; r < rows; r++) {
            QSA_TRY(read_row(cache, sequence, layer, tensor, r, row));
            qsa_hash_add(state, row, bytes);
        }
    return QSA_OK;
}

static qsa_status digest_all(const qsa_cache *cache, const qsa_sequence *sequence, float *row, qsa_hash *state)
{
    const uint64_t tokens = qsa_sequence_tokens(sequence);
    const int64_t head[4] = {sequence->anchor, sequence->frontier, sequence->frame, (int64_t)sequence->window};
    qsa_hash_begin(state);
    qsa_hash_add(state, head, sizeof head);
    for (uint64_t t = 0; t < tokens; t++)
        qsa_hash_add(state, qsa_triple_at(cache, qsa_sequence_place(sequence, t)), sizeof(qsa_triple));
    for (int tensor = 0; tensor < QSA_TENSOR_COUNT; tensor++) {
        const uint64_t rows = tensor == QSA_TENSOR_POOLED ? tokens / cache->layout.config.ratio : tokens;
        QSA_TRY(digest_tensor(cache, sequence, tensor, rows, row, state));
    }
    return QSA_OK;
}

qsa_status qsa_seq_digest(const qsa_cache *cache, qsa_seq seq, uint64_t *out_digest)
{
    qsa_sequence *sequence;
    QSA_TRY(qsa_sequence_find_idle(cache, seq, &sequence));
    if (out_digest == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "digest: NULL argument");
    const uint32_t kv = row_width(cache, QSA_TENSOR_K), index = cache->layout.config.index_dim;
    const uint64_t bytes = (kv > index ? kv : index) * sizeof(float);
    qsa_cache_hold(cache);
    float *row = qsa_allocate(&cache->allocator, bytes);
    qsa_hash state;
    const qsa_status status = row == NULL ? qsa_fail(QSA_E_MEMORY, "digest: no memory for one token")
                                          : digest_all(cache, sequence, row, &state);
    qsa_release(&cache->allocator, row, bytes);
    qsa_cache_release(cache);
    if (status == QSA_OK)
        *out_digest = qsa_hash_end(&state);
    return status;
}
