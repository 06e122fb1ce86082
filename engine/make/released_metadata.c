/* SPDX-License-Identifier: Apache-2.0 */
#include "make/released_metadata.h"

#include "base/error.h"
#include "base/random.h"
#include "make/recipe.h"
#include "make/released_vocabulary.h"

#include <assert.h>

typedef struct number {
    const char *name;
    uint32_t value;
} number;

static void set_numbers(struct gguf_context *file, const number *numbers, size_t n)
{
    char key[64];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "qwen4exp.%s", numbers[i].name);
        gguf_set_val_u32(file, key, numbers[i].value);
    }
}

static void set_shape(const released_plan *plan, struct gguf_context *file)
{
    const number numbers[] = {
        {"block_count", plan->options.layers},
        {"context_length", RELEASED_CONTEXT},
        {"embedding_length", RELEASED_EMBEDDING},
        {"feed_forward_length", RELEASED_EXPERT_WIDTH},
        {"hyper_connection.count", RELEASED_STREAMS},
        {"hyper_connection.low_rank", RELEASED_LOW_RANK},
        {"expert_count", plan->options.experts},
        {"expert_used_count", RELEASED_EXPERTS_USED},
        {"expert_feed_forward_length", RELEASED_EXPERT_WIDTH},
        {"expert_shared_feed_forward_length", RELEASED_SHARED_WIDTH},
        {"ssm.conv_kernel", RELEASED_CONVOLUTION},
        {"ssm.state_size", RELEASED_STATE_DIM},
        {"ssm.group_count", RELEASED_STATE_K_HEADS},
        {"ssm.time_step_rank", RELEASED_STATE_V_HEADS},
        {"ssm.inner_size", RELEASED_STATE_INNER},
        {"attention.head_count", RELEASED_Q_HEADS},
        {"attention.head_count_kv", RELEASED_KV_HEADS},
        {"attention.key_length", RELEASED_HEAD_DIM},
        {"attention.value_length", RELEASED_HEAD_DIM},
        {"attention.indexer.head_count", RELEASED_INDEX_HEADS},
        {"attention.indexer.key_length", RELEASED_INDEX_DIM},
        {"attention.indexer.top_k", RELEASED_BUDGET},
        {"rope.dimension_count", RELEASED_ROTARY_DIMS},
        {"full_attention_interval", RELEASED_INTERVAL},
    };
    static const int32_t sections[4] = {11, 11, 10, 0};
    set_numbers(file, numbers, sizeof numbers / sizeof numbers[0]);
    gguf_set_val_f32(file, "qwen4exp.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_set_val_f32(file, "qwen4exp.rope.freq_base", 1e7f);
    gguf_set_arr_data(file, "qwen4exp.rope.dimension_sections", GGUF_TYPE_INT32, sections, 4);
}

static void set_layer_kinds(const released_plan *plan, struct gguf_context *file)
{
    const uint32_t layers = plan->options.layers;
    assert(layers <= RELEASED_MAX_LAYERS);
    int8_t recurrent[RELEASED_MAX_LAYERS];
    int32_t ratios[RELEASED_MAX_LAYERS];
    for (uint32_t layer = 0; layer < layers; layer++) {
        recurrent[layer] = (layer + 1) % RELEASED_INTERVAL != 0;
        ratios[layer] = recurrent[layer] ? 0 : RELEASED_RATIO;
    }
    gguf_set_arr_data(file, "qwen4exp.attention.recurrent_layers", GGUF_TYPE_BOOL, recurrent, layers);
    gguf_set_arr_data(file, "qwen4exp.attention.compress_ratios", GGUF_TYPE_INT32, ratios, layers);
}

static void set_ngram(const released_plan *plan, struct gguf_context *file)
{
    const uint32_t end = released_end_of_text(plan->options.vocabulary);
    const number numbers[] = {
        {"ple.ngram_size", RELEASED_NGRAM_SIZE},         {"ple.heads_per_ngram", RELEASED_NGRAM_HEADS_EACH},
        {"ple.conv_kernel", RELEASED_NGRAM_CONVOLUTION}, {"ple.eos_token_id", end},
        {"ple.image_token_id", end + RELEASED_IMAGE},    {"embedding_length_per_layer_input", RELEASED_NGRAM_DIM},
    };
    static const uint32_t layers[] = {RELEASED_NGRAM_LAYER};
    uint64_t multipliers[RELEASED_NGRAM_SIZE], offsets[RELEASED_NGRAM_HEADS], sizes[RELEASED_NGRAM_HEADS], rows = 0;
    for (uint64_t k = 0; k < RELEASED_NGRAM_SIZE; k++) /* odd, 44 bits: the product with any token is below 2^62 */
        multipliers[k] = random_value(plan->options.seed, UINT32_MAX, k) >> 20 | 1;
    for (int head = 0; head < RELEASED_NGRAM_HEADS; head++) {
        offsets[head] = rows;
        sizes[head] = plan->ngram_sizes[head];
        rows += sizes[head];
    }
    set_numbers(file, numbers, sizeof numbers / sizeof numbers[0]);
    gguf_set_arr_data(file, "qwen4exp.ple.layers", GGUF_TYPE_UINT32, layers, 1);
    gguf_set_arr_data(file, "qwen4exp.ple.layer_multipliers", GGUF_TYPE_UINT64, multipliers, RELEASED_NGRAM_SIZE);
    gguf_set_arr_data(file, "qwen4exp.ple.head_offsets", GGUF_TYPE_UINT64, offsets, RELEASED_NGRAM_HEADS);
    gguf_set_arr_data(file, "qwen4exp.ple.head_vocab_sizes", GGUF_TYPE_UINT64, sizes, RELEASED_NGRAM_HEADS);
}

qsa_status released_set_keys(const released_plan *plan, struct gguf_context *file)
{
    gguf_set_val_str(file, "general.architecture", "qwen4exp");
    gguf_set_val_str(file, "general.type", "model");
    gguf_set_val_str(file, "general.name", "random weights of released widths");
    gguf_set_val_str(file, "general.description", "For trying memory and speed. It has learned nothing.");
    gguf_set_val_u32(file, "general.file_type", recipe_file_type(plan->options.type));
    gguf_set_val_u32(file, "general.quantization_version", GGML_QNT_VERSION);
    set_shape(plan, file);
    set_layer_kinds(plan, file);
    set_ngram(plan, file);
    return released_set_vocabulary(plan->options.vocabulary, file);
}
