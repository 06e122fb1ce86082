/* SPDX-License-Identifier: Apache-2.0 */
/* Every key that a file may have: those that the engine reads, those that cannot change a result, and those that can,
 * with the values for which they do not. */
#include "model/known_keys.h"

#include "base/error.h"

#include <string.h>

/* A key that would change the computation with any other value. */
typedef struct neutral_key {
    const char *name; /* after "qwen4exp." */
    double values[2];
} neutral_key;

static const char *const read_keys[] = {
    "general.architecture",
    "general.alignment",
    "general.name",
    "general.type",
    "general.sampling.temp",
    "general.sampling.top_k",
    "general.sampling.top_p",
    "general.sampling.min_p",
    "general.sampling.penalty_repeat",
    "general.sampling.penalty_last_n",
    "split.no",
    "split.count",
    "split.tensors.count",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.add_eos_token",
};

static const char *const read_model_keys[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "hyper_connection.count",
    "hyper_connection.low_rank",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "attention.layer_norm_rms_epsilon",
    "full_attention_interval",
    "attention.recurrent_layers",
    "attention.compress_ratios",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.indexer.head_count",
    "attention.indexer.key_length",
    "attention.indexer.top_k",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.dimension_sections",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scale_linear",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.attn_factor",
    "ssm.conv_kernel",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.inner_size",
    "ple.layers",
    "ple.ngram_size",
    "ple.heads_per_ngram",
    "ple.conv_kernel",
    "ple.eos_token_id",
    "ple.layer_multipliers",
    "ple.head_offsets",
    "ple.head_vocab_sizes",
    "embedding_length_per_layer_input",
    "nextn_predict_layers",
};

static const neutral_key neutral_keys[] = {
    {"expert_weights_scale", {0, 1}},
    {"expert_weights_norm", {1, 1}},
    {"expert_gating_func", {0, 1}}, /* 1: softmax */
    {"expert_group_count", {0, 1}},
    {"expert_group_used_count", {0, 1}},
    {"expert_shared_count", {1, 1}},
    {"leading_dense_block_count", {0, 0}},
    {"interleave_moe_layer_step", {0, 1}},
    {"moe_every_n_layers", {0, 1}},
    {"swiglu_clamp_exp", {0, 0}},
    {"swiglu_clamp_shexp", {0, 0}},
    {"logit_scale", {0, 1}},
    {"residual_scale", {0, 1}},
    {"embedding_scale", {0, 1}},
    {"attn_logit_softcapping", {0, 0}},
    {"final_logit_softcapping", {0, 0}},
    {"attention.scale", {0, 0}},
    {"attention.output_scale", {0, 1}},
    {"attention.value_scale", {0, 1}},
    {"attention.clamp_kqv", {0, 0}},
    {"attention.max_alibi_bias", {0, 0}},
    {"attention.sliding_window", {0, 0}},
    {"attention.causal", {1, 1}},
    {"attention.shared_kv_layers", {0, 0}},
    {"use_parallel_residual", {0, 0}},
    {"rope.scaling.yarn_log_multiplier", {0, 0}},
    {"rope.partial_rotary_factor", {0, 0}},
    {"ssm.dt_b_c_rms", {0, 0}},
};

typedef struct unneeded_key {
    const char *begin; /* of the name */
    const char *reason;
} unneeded_key;

static const char ABOUT[] = "about the file";

static const unneeded_key unneeded_keys[] = {
    {"general.sampling.", "a way of sampling that is not offered here"},
    {"general.", ABOUT},
    {"quantize.", "how the file was quantised"},
    {"tokenizer.chat_template", "chat template"},
    {"tokenizer.huggingface.", "the tokenizer in another form"},
    {"tokenizer.ggml.scores", "byte-level BPE has no scores"},
    {"tokenizer.ggml.token_type_count", "of models with segments"},
    {"tokenizer.ggml.padding_token_id", "nothing is padded"},
    {"tokenizer.ggml.unknown_token_id", "every byte has a token"},
    {"tokenizer.ggml.seperator_token_id", "of models with segments"},
    {"tokenizer.ggml.cls_token_id", "of models with segments"},
    {"tokenizer.ggml.mask_token_id", "of models with masks"},
    {"tokenizer.ggml.add_sep_token", "of models with segments"},
    {"tokenizer.ggml.fim_", "fill in the middle is written by its caller"},
    {"tokenizer.ggml.prefix_token_id", "fill in the middle is written by its caller"},
    {"tokenizer.ggml.suffix_token_id", "fill in the middle is written by its caller"},
    {"tokenizer.ggml.middle_token_id", "fill in the middle is written by its caller"},
    {"tokenizer.ggml.add_space_prefix", "byte-level BPE adds no space"},
    {"tokenizer.ggml.remove_extra_whitespaces", "byte-level BPE removes nothing"},
    {"tokenizer.ggml.added_tokens", "they are among the tokens"},
    {"qwen4exp.vocab_size", "the embedding's rows count"},
    {"qwen4exp.feed_forward_length", "of dense layers; every layer has experts"},
    {"qwen4exp.tensor_data_layout", ABOUT},
    {"qwen4exp.pooling_type", "of embeddings of texts"},
    {"qwen4exp.ple.image_token_id", "images; this is a model of text"},
    {"qwen4exp.n_deepstack_layers", "images; this is a model of text"},
    {"qwen4exp.attention.layer_norm_epsilon", "every norm is an RMS norm"},
    {"qwen4exp.rope.scaling.finetuned", ABOUT},
};

enum {
    READ = sizeof read_keys / sizeof *read_keys,
    READ_MODEL = sizeof read_model_keys / sizeof *read_model_keys,
    NEUTRAL = sizeof neutral_keys / sizeof *neutral_keys,
    MAX_NUMBERS = 1024, /* of a list per layer */
    UNNEEDED = sizeof unneeded_keys / sizeof *unneeded_keys
};

static const char PREFIX[] = "qwen4exp.";

/* The key's name after "qwen4exp."; NULL: another key. */
static const char *model_key(const char *key)
{
    const size_t n = strlen(PREFIX);
    return strncmp(key, PREFIX, n) == 0 ? key + n : NULL;
}

static bool is_in(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The value of a number or a bool; every number of a list. False: it is something else. */
static bool has_only(const gguf_file *file, const char *key, const double values[2])
{
    double found[MAX_NUMBERS];
    size_t n = 0;
    if (gguf_file_numbers(file, key, found, MAX_NUMBERS, &n) != QSA_OK)
        return false;
    for (size_t i = 0; i < n; i++)
        if (found[i] != values[0] && found[i] != values[1])
            return false;
    return n > 0;
}

static qsa_status check_neutral(const gguf_file *file, const char *key, const neutral_key *neutral,
                                const char **out_reason)
{
    if (!has_only(file, key, neutral->values)) {
        return engine_fail(QSA_E_UNSUPPORTED, "%s asks for something that is not computed here; supported is %g", key,
                           neutral->values[1]);
    }
    *out_reason = "its value changes nothing";
    return QSA_OK;
}

static const char *unneeded_reason(const char *key)
{
    for (size_t i = 0; i < UNNEEDED; i++)
        if (strncmp(key, unneeded_keys[i].begin, strlen(unneeded_keys[i].begin)) == 0)
            return unneeded_keys[i].reason;
    const bool is_ours =
        model_key(key) != NULL || strncmp(key, "tokenizer.", 10) == 0 || strncmp(key, "split.", 6) == 0;
    return is_ours ? NULL : "of another program";
}

qsa_status key_check(const gguf_file *file, const char *key, const char **out_reason)
{
    const char *name = model_key(key);
    *out_reason = NULL;
    if (is_in(key, read_keys, READ) || (name != NULL && is_in(name, read_model_keys, READ_MODEL)))
        return QSA_OK;
    for (size_t i = 0; name != NULL && i < NEUTRAL; i++)
        if (strcmp(name, neutral_keys[i].name) == 0)
            return check_neutral(file, key, &neutral_keys[i], out_reason);
    *out_reason = unneeded_reason(key);
    if (*out_reason == NULL)
        return engine_fail(QSA_E_UNSUPPORTED, "key %.80s is not known: what it asks for would be missing", key);
    return QSA_OK;
}
