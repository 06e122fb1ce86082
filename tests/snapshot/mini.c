#include "mini.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { Q_HEADS = 2, DIM = 8, LAYERS = 3 };

void mini_ok(qsa_status status)
{
    if (status != QSA_OK)
        fail_msg("%s: %s", qsa_status_name(status), qsa_error_detail());
}

qsa_config mini_config(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = LAYERS;
    config.q_heads = Q_HEADS;
    config.kv_heads = 1;
    config.head_dim = DIM;
    config.index_heads = 1;
    config.index_dim = DIM;
    config.budget = 8;
    config.rotary_dim = 4;
    config.sections[0] = 2;
    config.sections[1] = config.sections[2] = 0;
    config.capacity_tokens = 40 * QSA_PAGE_TOKENS;
    config.max_sequences = 8;
    config.max_step_tokens = 512;
    return config;
}

qsa_cache *mini_create(const qsa_config *config)
{
    qsa_cache *cache;
    mini_ok(qsa_cache_create(config, &cache));
    return cache;
}

/* [n][width] whose values depend on stream, layer, tensor and position. */
static float *values(uint64_t stream, uint32_t layer, uint32_t tensor, int64_t position, uint32_t n, uint32_t width)
{
    float *x = test_alloc((size_t)n * width, sizeof *x);
    for (uint32_t i = 0; i < n * width; i++)
        x[i] = golden_value(stream * 64 + layer * 8 + tensor, (uint64_t)position * width + i);
    return x;
}

static qsa_status feed_layer(qsa_step *step, uint32_t layer, const qsa_config *config, int64_t position, uint32_t n,
                             uint64_t stream, float *out)
{
    const uint32_t dim = config->head_dim, kv = config->kv_heads * dim;
    float *q = values(stream, layer, 0, position, n, Q_HEADS * dim), *k = values(stream, layer, 1, position, n, kv);
    float *v = values(stream, layer, 2, position, n, kv), *iq = values(stream, layer, 3, position, n, DIM);
    float *raw = values(stream, layer, 4, position, n, DIM);
    const qsa_tensors tensors = {.q = {q, Q_HEADS * dim, dim},
                                 .k = {k, kv, dim},
                                 .v = {v, kv, dim},
                                 .index_q = {iq, DIM, 0},
                                 .raw_key = {raw, DIM, 0}};
    const qsa_output output = {out, Q_HEADS * dim, dim};
    qsa_status status = qsa_step_layer(step, layer, &tensors, &output);
    free(q);
    free(k);
    free(v);
    free(iq);
    free(raw);
    return status;
}

qsa_status mini_try_feed(qsa_cache *cache, qsa_seq seq, int64_t position, uint32_t n, uint64_t stream, float *out)
{
    const qsa_entry entry = {.seq = seq, .position = position, .tokens = n};
    qsa_step *step;
    qsa_status status = qsa_step_begin(cache, &entry, 1, &step);
    if (status != QSA_OK)
        return status;
    qsa_config config;
    mini_ok(qsa_cache_config(cache, &config));
    const size_t width = Q_HEADS * config.head_dim;
    float *output = test_alloc(n * width, sizeof *output);
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        mini_ok(feed_layer(step, layer, &config, position, n, stream, output));
    if (out != NULL)
        memcpy(out, output + (n - 1) * width, width * sizeof *out);
    free(output);
    mini_ok(qsa_step_commit(step, NULL));
    mini_ok(qsa_cache_check(cache));
    return QSA_OK;
}

void mini_feed(qsa_cache *cache, qsa_seq seq, int64_t position, uint32_t n, uint64_t stream, float *out)
{
    mini_ok(mini_try_feed(cache, seq, position, n, stream, out));
}

uint64_t mini_digest(const qsa_cache *cache, qsa_seq seq)
{
    uint64_t digest;
    mini_ok(qsa_seq_digest(cache, seq, &digest));
    return digest;
}

uint64_t mini_state(const qsa_cache *cache, const qsa_seq *sequences, size_t n)
{
    uint64_t hash = golden_hash_u32(GOLDEN_HASH_START, (uint32_t)qsa_cache_free_tokens(cache));
    for (size_t i = 0; i < n; i++) {
        uint64_t digest = mini_digest(cache, sequences[i]);
        hash = golden_hash_u32(golden_hash_u32(hash, (uint32_t)digest), (uint32_t)(digest >> 32));
    }
    mini_ok(qsa_cache_check(cache));
    return hash;
}

static qsa_status append_bytes(void *context, const void *data, size_t size)
{
    mini_bytes *bytes = context;
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = 2 * (bytes->size + size);
        bytes->data = realloc(bytes->data, bytes->capacity);
        assert_non_null(bytes->data);
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return QSA_OK;
}

static qsa_status take_bytes(void *context, void *data, size_t size)
{
    mini_bytes *bytes = context;
    if (size > bytes->size - bytes->at)
        return QSA_E_FORMAT;
    memcpy(data, bytes->data + bytes->at, size);
    bytes->at += size;
    return QSA_OK;
}

qsa_writer mini_writer(mini_bytes *bytes)
{
    return (qsa_writer){append_bytes, bytes};
}

qsa_reader mini_reader(mini_bytes *bytes)
{
    bytes->at = 0;
    return (qsa_reader){take_bytes, bytes};
}

void mini_free(mini_bytes *bytes)
{
    free(bytes->data);
    *bytes = (mini_bytes){0};
}
