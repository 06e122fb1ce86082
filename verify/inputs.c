/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/inputs.h"

#include "console/memory.h"
#include "verify/golden_numbers.h"

enum { STREAM_INDEX_Q = 101, STREAM_RAW_KEY, STREAM_INDEX_Q_NORM, STREAM_INDEX_K_NORM, STREAM_Q, STREAM_K, STREAM_V };
enum { STREAM_Q_NORM = 108, STREAM_K_NORM };

static void set_shape(input_shape shape, qsa_config *c)
{
    static const struct {
        uint32_t q_heads, kv_heads, head_dim, index_heads, index_dim, rotary_dim, sections[3], budget;
    } shapes[] = {
        [SHAPE_SMALL] = {4, 2, 64, 2, 32, 16, {3, 3, 2}, 32}, [SHAPE_THIN] = {2, 1, 16, 2, 16, 8, {2, 1, 1}, 2048}};
    qsa_config_init(c);
    c->layers = 1;
    if (shape == SHAPE_RELEASED)
        return;
    c->q_heads = shapes[shape].q_heads;
    c->kv_heads = shapes[shape].kv_heads;
    c->head_dim = shapes[shape].head_dim;
    c->index_heads = shapes[shape].index_heads;
    c->index_dim = shapes[shape].index_dim;
    c->rotary_dim = shapes[shape].rotary_dim;
    c->budget = shapes[shape].budget;
    for (int i = 0; i < 3; i++)
        c->sections[i] = shapes[shape].sections[i];
}

float random_value(uint64_t stream, uint64_t k)
{
    return golden_value(stream, k) * 1.7320508f;
}

static float *random_tensor(uint64_t stream, size_t count, float scale)
{
    float *x = memory_new(count, sizeof *x);
    for (size_t k = 0; k < count; k++)
        x[k] = random_value(stream, k) * scale;
    return x;
}

static float *random_norm(uint64_t stream, uint32_t dim)
{
    float *weight = memory_new(dim, sizeof *weight);
    for (uint32_t i = 0; i < dim; i++)
        weight[i] = 1 + golden_value(stream, i) * 0.25f;
    return weight;
}

golden_case random_case(input_shape shape, uint32_t n, int64_t anchor, int types)
{
    golden_case c = {.has_attention = true, .n = n, .anchor = anchor};
    qsa_config *config = &c.config;
    set_shape(shape, config);
    config->kv_type = types & KV_BF16 ? QSA_KV_BF16 : QSA_KV_F32;
    config->profile = types & INDEX_BF16 ? QSA_PROFILE_BF16 : QSA_PROFILE_F32;
    const size_t kv = (size_t)n * config->kv_heads * config->head_dim;
    c.index_q = random_tensor(STREAM_INDEX_Q, (size_t)n * config->index_heads * config->index_dim, 1);
    c.raw_key = random_tensor(STREAM_RAW_KEY, (size_t)n * config->index_dim, 1);
    c.q = random_tensor(STREAM_Q, (size_t)n * config->q_heads * config->head_dim, 2);
    c.k = random_tensor(STREAM_K, kv, 1);
    c.v = random_tensor(STREAM_V, kv, 1);
    c.index_q_norm = random_norm(STREAM_INDEX_Q_NORM, config->index_dim);
    c.index_k_norm = random_norm(STREAM_INDEX_K_NORM, config->index_dim);
    c.q_norm = random_norm(STREAM_Q_NORM, config->head_dim);
    c.k_norm = random_norm(STREAM_K_NORM, config->head_dim);
    return c;
}
