/* SPDX-License-Identifier: Apache-2.0 */
#include "make/quoter_weights.h"

#include "base/random.h"

#include <assert.h>
#include <math.h>

enum {
    /* Adjacent contexts are similar to the indexer: a slot's projection shares all but one of its 10 summands with the
     * next slot's. So the other tokens of a group support the matching one instead of drowning it out. In ledgers of
     * 262,144 tokens (65,536 groups, budget 512) the matching group was not selected in 15 % of trials with independent
     * projections, and in none of 1,200 with these and the default seed (other seeds: 0 to 0.3 %). */
    INDEX_SUMMANDS = 10,
    INDEX_MAX_BYTES = 16, /* of the context that the indexer sees: older bytes add more noise than signal */
};

/* Weight of what a silu reads from a constant dimension or from a code. */
static const float GAIN = 8.0f;

/* ---- helpers ---- */

static uint32_t context_of_layer(uint32_t layer)
{
    return (layer / QUOTER_BLOCK_LAYERS + 1) * QUOTER_BLOCK_BYTES;
}

static void fill_ones(float *weights, size_t n)
{
    for (size_t i = 0; i < n; i++)
        weights[i] = 1.0f;
}

/* Weight of byte j of a context of n bytes, the newest being j = 0: decreases linearly from `newest`, with mean 1. */
static double emphasis(uint32_t j, uint32_t n, double newest)
{
    assert(n > 1 && j < n);
    return newest + (2 - 2 * newest) * j / (n - 1);
}

/* A block of a weight matrix: the rows of one head, the columns of one slot. */
typedef struct block_place {
    float *rows; /* [head rows][embedding], at the head's first row */
    uint32_t head_rows;
    uint32_t column;
} block_place;

/* A random sign matrix, or the scaled sum of several, from a code to the rows of a head. */
typedef struct projection {
    uint64_t stream;
    uint32_t summands; /* one random stream each, from `stream` on */
    double scale;
} projection;

/* Writes a projection to the block. Leaves the rotary rows zero, so that scores do not depend on position. */
static void project(const quoter_plan *plan, block_place place, projection p)
{
    uint32_t dims = plan->options.code_dims;
    assert(place.column + dims <= plan->embedding && p.summands > 0);
    double unit = p.scale / sqrt((double)dims * p.summands);
    for (uint32_t row = plan->options.rotary_dims; row < place.head_rows; row++) {
        float *out = place.rows + (size_t)row * plan->embedding + place.column;
        for (uint32_t d = 0; d < dims; d++) {
            float sum = 0;
            for (uint32_t i = 0; i < p.summands; i++)
                sum += random_sign(plan->options.seed, p.stream + i, (uint64_t)row * dims + d);
            out[d] = (float)(sum * unit);
        }
    }
}

/* ---- embedding, output, norms ---- */

void quoter_fill_embedding(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    uint32_t dims = plan->options.code_dims;
    for (size_t token = 0; token < QUOTER_VOCABULARY; token++) {
        float *row = weights + token * plan->embedding;
        for (uint32_t d = 0; d < dims; d++)
            row[d] = plan->codes[token * dims + d];
        fill_ones(row + plan->constant, QUOTER_CONSTANT_DIMS);
    }
}

void quoter_fill_output(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    uint32_t dims = plan->options.code_dims;
    for (size_t token = 0; token < QUOTER_VOCABULARY; token++)
        for (uint32_t d = 0; d < dims; d++)
            weights[token * plan->embedding + plan->output + d] = plan->codes[token * dims + d];
}

void quoter_fill_stream_norm(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    fill_ones(weights, (size_t)QUOTER_STREAMS * plan->embedding);
}

/* ---- delta nets: net i copies slot 3i to slots 3i + 1, 3i + 2, 3i + 3, delayed by 1, 2 and 3 tokens ---- */

static uint32_t source_slot(uint32_t layer)
{
    assert(layer % QUOTER_BLOCK_LAYERS != QUOTER_BLOCK_LAYERS - 1); /* a delta net */
    uint32_t nets_before = layer / QUOTER_BLOCK_LAYERS * (QUOTER_BLOCK_LAYERS - 1) + layer % QUOTER_BLOCK_LAYERS;
    return nets_before * 3;
}

/* [2 * k heads * state + v heads * state][embedding]. Queries and keys are one constant direction. A value head holds
 * the code twice, once negated, because silu(a) - silu(-a) = a. */
void quoter_fill_state_qkv(const quoter_plan *plan, uint32_t layer, float *weights)
{
    size_t width = plan->embedding;
    uint32_t dims = plan->options.code_dims;
    uint32_t keys = 2 * QUOTER_STATE_K_HEADS;
    for (uint32_t head = 0; head < keys; head++)
        weights[(size_t)head * plan->state_dim * width + plan->constant] = GAIN;
    for (uint32_t late = 0; late < 3; late++) {
        float *rows = weights + (size_t)(keys + late) * plan->state_dim * width + (size_t)source_slot(layer) * dims;
        for (uint32_t d = 0; d < dims; d++) {
            rows[d * width + d] = GAIN;
            rows[(dims + d) * width + d] = -GAIN;
        }
    }
}

/* [channels][taps]; the last tap is the current token. */
void quoter_fill_convolution(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    const uint32_t present = QUOTER_CONVOLUTION - 1;
    uint32_t state = plan->state_dim;
    uint32_t keys = 2 * QUOTER_STATE_K_HEADS;
    for (uint32_t head = 0; head < keys; head++)
        weights[(size_t)head * state * QUOTER_CONVOLUTION + present] = 1.0f;
    for (uint32_t late = 0; late < 3; late++)
        for (uint32_t d = 0; d < 2 * plan->options.code_dims; d++)
            weights[((size_t)(keys + late) * state + d) * QUOTER_CONVOLUTION + present - (late + 1)] = 1.0f;
}

/* exp(-50 * softplus(20)) = 0: the state is cleared at each token. */
void quoter_fill_decay(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)plan;
    (void)layer;
    for (uint32_t head = 0; head < QUOTER_STATE_V_HEADS; head++)
        weights[head] = -50.0f;
}

void quoter_fill_decay_bias(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)plan;
    (void)layer;
    for (uint32_t head = 0; head < QUOTER_STATE_V_HEADS; head++)
        weights[head] = 20.0f;
}

void quoter_fill_state_norm(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    fill_ones(weights, plan->state_dim);
}

/* [embedding][v heads * state]. Of the 2 * dims channels of a code, half have its magnitude and half are near 0. So the
 * head's norm scales them to sqrt(state / dims), and the gate halves that. */
void quoter_fill_state_out(const quoter_plan *plan, uint32_t layer, float *weights)
{
    uint32_t dims = plan->options.code_dims;
    size_t width = (size_t)QUOTER_STATE_V_HEADS * plan->state_dim;
    float scale = (float)(2.0 / sqrt((double)plan->state_dim / dims));
    for (uint32_t late = 0; late < 3; late++) {
        float *rows = weights + (size_t)(source_slot(layer) + late + 1) * dims * width + (size_t)late * plan->state_dim;
        for (uint32_t d = 0; d < dims; d++) {
            rows[d * width + d] = scale;
            rows[d * width + dims + d] = -scale;
        }
    }
}

/* ---- QSA layers: a query holds the last bytes, a key the bytes before its token, a value the token's byte ---- */

enum { STREAMS_PER_SOURCE = 128 };

/* The first random stream of a KV head's projections, or of the indexer's (kv_head = QUOTER_KV_HEADS). Stream 0 is for
 * the codes. */
static uint64_t first_stream(uint32_t layer, uint32_t kv_head)
{
    assert(kv_head <= QUOTER_KV_HEADS);
    return 1 + (uint64_t)(layer * (QUOTER_KV_HEADS + 1) + kv_head) * STREAMS_PER_SOURCE;
}

/* The rows of one head; byte j of the context is read from slot j + later. */
static void fill_context(const quoter_plan *plan, uint32_t layer, uint32_t kv_head, uint32_t later, float *rows)
{
    uint32_t n = context_of_layer(layer);
    assert(n <= STREAMS_PER_SOURCE && later <= 1);
    for (uint32_t j = 0; j < n; j++) {
        block_place place = {rows, plan->options.head_dim, (j + later) * plan->options.code_dims};
        project(plan, place, (projection){first_stream(layer, kv_head) + j, 1, emphasis(j, n, 1.2)});
    }
}

/* [q heads * 2 * head_dim][embedding]; per head the query, then the gate, which is 0. */
void quoter_fill_q(const quoter_plan *plan, uint32_t layer, float *weights)
{
    size_t head = (size_t)2 * plan->options.head_dim * plan->embedding;
    for (uint32_t h = 0; h < QUOTER_Q_HEADS; h++)
        fill_context(plan, layer, h / (QUOTER_Q_HEADS / QUOTER_KV_HEADS), 0, weights + h * head);
}

/* [kv heads * head_dim][embedding] */
void quoter_fill_k(const quoter_plan *plan, uint32_t layer, float *weights)
{
    size_t head = (size_t)plan->options.head_dim * plan->embedding;
    for (uint32_t h = 0; h < QUOTER_KV_HEADS; h++)
        fill_context(plan, layer, h, 1, weights + h * head);
}

/* [kv heads * head_dim][embedding] */
void quoter_fill_v(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    for (uint32_t h = 0; h < QUOTER_KV_HEADS; h++)
        for (uint32_t d = 0; d < plan->options.code_dims; d++)
            weights[((size_t)h * plan->options.head_dim + d) * plan->embedding + d] = 1.0f;
}

/* [embedding][q heads * head_dim]. The mix halves the value and the gate halves each of four heads: their sum has the
 * magnitude of a code. Earlier layers match fewer bytes and get an eighth of the last layer's vote. */
void quoter_fill_attention_out(const quoter_plan *plan, uint32_t layer, float *weights)
{
    float vote = layer + 1 == plan->layers ? 1.0f : 0.125f;
    uint32_t head = plan->options.head_dim;
    size_t width = (size_t)QUOTER_Q_HEADS * head;
    for (uint32_t d = 0; d < plan->options.code_dims; d++)
        for (uint32_t h = 0; h < QUOTER_Q_HEADS; h++)
            weights[(plan->answer + d) * width + (size_t)h * head + d] = vote;
}

/* Sharpens the softmax: a full match scores 128, an unrelated context about 0. */
void quoter_fill_q_norm(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    for (uint32_t d = 0; d < plan->options.head_dim; d++)
        weights[d] = (float)(128.0 / sqrt((double)plan->options.head_dim));
}

void quoter_fill_k_norm(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    fill_ones(weights, plan->options.head_dim);
}

static void fill_index_context(const quoter_plan *plan, uint32_t layer, uint32_t later, float *rows)
{
    uint32_t n = context_of_layer(layer);
    if (n > INDEX_MAX_BYTES)
        n = INDEX_MAX_BYTES;
    assert(n + INDEX_SUMMANDS - 1 <= STREAMS_PER_SOURCE && later <= 1);
    for (uint32_t j = 0; j < n; j++) {
        block_place place = {rows, plan->options.index_dim, (j + later) * plan->options.code_dims};
        projection p = {first_stream(layer, QUOTER_KV_HEADS) + j, INDEX_SUMMANDS, emphasis(j, n, 1.4)};
        project(plan, place, p);
    }
}

/* [index heads * index_dim][embedding]; all heads are equal. */
void quoter_fill_index_q(const quoter_plan *plan, uint32_t layer, float *weights)
{
    for (size_t h = 0; h < QUOTER_INDEX_HEADS; h++)
        fill_index_context(plan, layer, 0, weights + h * plan->options.index_dim * plan->embedding);
}

/* [index_dim][embedding] */
void quoter_fill_index_k(const quoter_plan *plan, uint32_t layer, float *weights)
{
    fill_index_context(plan, layer, 1, weights);
}

void quoter_fill_index_norm(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    fill_ones(weights, plan->options.index_dim);
}

/* ---- experts: the routed ones move the first half of the answer to the output, the shared one the second ---- */

/* Scales the output code. silu(GAIN / 2) is about 4 and the mix halves the answer, so a hidden unit is about 2. */
static const float CARRY = 25.0f;

/* [experts][embedding]: the sign of the first dimension of the current byte's code chooses the expert. */
void quoter_fill_router(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    weights[0] = GAIN;
    weights[plan->embedding] = -GAIN;
}

/* The code dimension that a hidden unit of an expert carries: ascending in one expert, descending in the other. */
static uint32_t carried(const quoter_plan *plan, uint32_t expert, uint32_t unit)
{
    uint32_t half = plan->options.code_dims / 2;
    assert(expert < QUOTER_EXPERTS && unit < half);
    return expert == 0 ? unit : half - 1 - unit;
}

/* [experts][width][embedding] */
void quoter_fill_expert_gate(const quoter_plan *plan, uint32_t layer, float *weights)
{
    size_t expert = (size_t)plan->options.expert_width * plan->embedding;
    for (uint32_t e = 0; e < QUOTER_EXPERTS; e++)
        quoter_fill_shared_gate(plan, layer, weights + e * expert);
}

/* [experts][width][embedding] */
void quoter_fill_expert_up(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    for (uint32_t e = 0; e < QUOTER_EXPERTS; e++)
        for (uint32_t u = 0; u < plan->options.code_dims / 2; u++) {
            size_t row = (size_t)e * plan->options.expert_width + u;
            weights[row * plan->embedding + plan->answer + carried(plan, e, u)] = 1.0f;
        }
}

/* [experts][embedding][width] */
void quoter_fill_expert_down(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    for (uint32_t e = 0; e < QUOTER_EXPERTS; e++)
        for (uint32_t u = 0; u < plan->options.code_dims / 2; u++) {
            size_t row = (size_t)e * plan->embedding + plan->output + carried(plan, e, u);
            weights[row * plan->options.expert_width + u] = CARRY;
        }
}

/* [width][embedding]: open for all units that are used. */
void quoter_fill_shared_gate(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    for (size_t u = 0; u < plan->options.code_dims / 2; u++)
        weights[u * plan->embedding + plan->constant] = GAIN;
}

/* [width][embedding] */
void quoter_fill_shared_up(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    uint32_t half = plan->options.code_dims / 2;
    for (uint32_t u = 0; u < half; u++)
        weights[(size_t)u * plan->embedding + plan->answer + half + u] = 1.0f;
}

/* [embedding][width]: twice the routed experts' scale, because the shared expert's gate is sigmoid(0) = 1/2. */
void quoter_fill_shared_down(const quoter_plan *plan, uint32_t layer, float *weights)
{
    (void)layer;
    uint32_t half = plan->options.code_dims / 2;
    for (uint32_t u = 0; u < half; u++)
        weights[(size_t)(plan->output + half + u) * plan->options.expert_width + u] = 2 * CARRY;
}
