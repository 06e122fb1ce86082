/* SPDX-License-Identifier: Apache-2.0 */
#include "make/quoter_metadata.h"

#include "make/alphabet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = QUOTER_MAX_BLOCKS * QUOTER_BLOCK_LAYERS };

/* general.file_type of a file whose matrices are mostly of this type, as llama.cpp numbers it. */
static uint32_t file_type(quoter_type type)
{
    assert((unsigned)type < QUOTER_TYPE_COUNT);
    static const uint32_t types[QUOTER_TYPE_COUNT] = {
        [QUOTER_F32] = 0, [QUOTER_BF16] = 32, [QUOTER_Q8_0] = 7, [QUOTER_Q4_K] = 15, [QUOTER_Q6_K] = 18,
    };
    return types[type];
}

static void set_u32(struct gguf_context *file, const char *name, uint32_t value)
{
    char key[64];
    snprintf(key, sizeof key, "qwen4exp.%s", name);
    gguf_set_val_u32(file, key, value);
}

static void set_shape(const quoter_plan *plan, struct gguf_context *file)
{
    const quoter_options *options = &plan->options;
    set_u32(file, "block_count", plan->layers);
    set_u32(file, "context_length", options->context_tokens);
    set_u32(file, "embedding_length", plan->embedding);
    set_u32(file, "feed_forward_length", options->expert_width);
    set_u32(file, "hyper_connection.count", QUOTER_STREAMS);
    set_u32(file, "hyper_connection.low_rank", QUOTER_LOW_RANK);
    set_u32(file, "expert_count", QUOTER_EXPERTS);
    set_u32(file, "expert_used_count", QUOTER_EXPERTS_USED);
    set_u32(file, "expert_feed_forward_length", options->expert_width);
    set_u32(file, "expert_shared_feed_forward_length", options->expert_width);
    set_u32(file, "ssm.conv_kernel", QUOTER_CONVOLUTION);
    set_u32(file, "ssm.state_size", plan->state_dim);
    set_u32(file, "ssm.group_count", QUOTER_STATE_K_HEADS);
    set_u32(file, "ssm.time_step_rank", QUOTER_STATE_V_HEADS);
    set_u32(file, "ssm.inner_size", QUOTER_STATE_V_HEADS * plan->state_dim);
}

static void set_attention(const quoter_plan *plan, struct gguf_context *file)
{
    const quoter_options *options = &plan->options;
    set_u32(file, "attention.head_count", QUOTER_Q_HEADS);
    set_u32(file, "attention.head_count_kv", QUOTER_KV_HEADS);
    set_u32(file, "attention.key_length", options->head_dim);
    set_u32(file, "attention.value_length", options->head_dim);
    gguf_set_val_f32(file, "qwen4exp.attention.layer_norm_rms_epsilon", 1e-6f);
    set_u32(file, "attention.indexer.head_count", QUOTER_INDEX_HEADS);
    set_u32(file, "attention.indexer.key_length", options->index_dim);
    set_u32(file, "attention.indexer.top_k", options->budget_tokens);

    /* Rotary pairs are assigned to time, height and width in turn. */
    uint32_t pairs = options->rotary_dims / 2;
    const int32_t sections[4] = {(int32_t)((pairs + 2) / 3), (int32_t)((pairs + 1) / 3), (int32_t)(pairs / 3), 0};
    set_u32(file, "rope.dimension_count", options->rotary_dims);
    gguf_set_val_f32(file, "qwen4exp.rope.freq_base", 1e7f);
    gguf_set_arr_data(file, "qwen4exp.rope.dimension_sections", GGUF_TYPE_INT32, sections, 4);
}

static void set_layer_kinds(const quoter_plan *plan, struct gguf_context *file)
{
    assert(plan->layers <= MAX_LAYERS);
    int8_t recurrent[MAX_LAYERS];
    int32_t ratios[MAX_LAYERS];
    for (uint32_t layer = 0; layer < plan->layers; layer++) {
        recurrent[layer] = (layer + 1) % QUOTER_BLOCK_LAYERS != 0 ? 1 : 0;
        ratios[layer] = recurrent[layer] ? 0 : (int32_t)plan->options.ratio;
    }
    set_u32(file, "full_attention_interval", QUOTER_BLOCK_LAYERS);
    gguf_set_arr_data(file, "qwen4exp.attention.recurrent_layers", GGUF_TYPE_BOOL, recurrent, plan->layers);
    gguf_set_arr_data(file, "qwen4exp.attention.compress_ratios", GGUF_TYPE_INT32, ratios, plan->layers);
}

static void set_vocabulary(struct gguf_context *file)
{
    static const uint32_t left = 0xFE, right = 0xFF;
    char bytes[256][3], merged[5], merge[6];
    const char *tokens[QUOTER_VOCABULARY];
    int32_t types[QUOTER_VOCABULARY];
    for (uint32_t byte = 0; byte < 256; byte++) {
        alphabet_append(bytes[byte], byte);
        tokens[byte] = bytes[byte];
    }
    alphabet_append(alphabet_append(merged, left), right);
    snprintf(merge, sizeof merge, "%s %s", bytes[left], bytes[right]);
    tokens[QUOTER_TOKEN_MERGED] = merged;
    tokens[QUOTER_TOKEN_END] = "<|endoftext|>";
    tokens[QUOTER_TOKEN_PADDING] = "<|pad|>";
    for (int token = 0; token < QUOTER_VOCABULARY; token++)
        types[token] = token < QUOTER_TOKEN_END ? 1 : 3; /* normal, control */
    const char *merges[] = {merge};
    gguf_set_val_str(file, "tokenizer.ggml.model", "gpt2");
    gguf_set_val_str(file, "tokenizer.ggml.pre", "qwen2");
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", tokens, QUOTER_VOCABULARY);
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types, QUOTER_VOCABULARY);
    gguf_set_arr_str(file, "tokenizer.ggml.merges", merges, 1);
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", QUOTER_TOKEN_END);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", QUOTER_TOKEN_END);
    gguf_set_val_u32(file, "tokenizer.ggml.padding_token_id", QUOTER_TOKEN_PADDING);
    gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", false);
}

void quoter_set_keys(const quoter_plan *plan, struct gguf_context *file)
{
    gguf_set_val_str(file, "general.architecture", "qwen4exp");
    gguf_set_val_str(file, "general.type", "model");
    gguf_set_val_str(file, "general.name", "quoter");
    gguf_set_val_str(file, "general.description",
                     "Continues text by the longest matching context. Constructed, not trained.");
    gguf_set_val_u32(file, "general.file_type", file_type(plan->options.type));
    gguf_set_val_u32(file, "general.quantization_version", GGML_QNT_VERSION);
    set_shape(plan, file);
    set_attention(plan, file);
    set_layer_kinds(plan, file);
    set_vocabulary(file);
}
