/* SPDX-License-Identifier: Apache-2.0 */
/* Model files whose keys or tensors do not fit: each is refused with one line that names the key or tensor. */
#include "file/gguf_file.h"
#include "model_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static model_bytes original;

static int read_original(void **state)
{
    original = model_bytes_read("tiny-q8_0.gguf");
    return model_temporary_make(state);
}

static int free_original(void **state)
{
    free(original.data);
    return model_temporary_remove(state);
}

static model_bytes copy(void)
{
    model_bytes bytes = {test_alloc(original.size, 1), original.size};
    memcpy(bytes.data, original.data, original.size);
    return bytes;
}

/* Frees the bytes. */
static void assert_refused(model_bytes bytes, qsa_status expected, const char *word)
{
    const qsa_status found = model_bytes_refusal(&bytes);
    if (found != expected || strstr(qsa_engine_error(), word) == NULL)
        fail_msg("expected %s naming %s, found %s: %s", qsa_status_name(expected), word, qsa_status_name(found),
                 found == QSA_OK ? "" : qsa_engine_error());
    assert_null(strchr(qsa_engine_error(), '\n'));
    free(bytes.data);
}

/* ---- ggml's words ---- */

/* Of whoever opens a file first: the first test here, so that nothing of the process has opened a model yet. */
static void words_of_ggml_are_kept_after_another_file_was_open(void **state)
{
    (void)state;
    gguf_file *file = NULL;
    model_ok(gguf_file_open(QSA_GOLDEN_DIR "/model/tiny-q8_0.gguf", &file));
    gguf_file_close(file);
    model_bytes bytes = copy();
    model_bytes_rename(&bytes, "blk.0.ssm_norm.weight", "blk.1.ssm_norm.weight");
    assert_refused(bytes, QSA_E_FORMAT, "duplicate tensor name");
}

/* ---- keys ---- */

static const char *const required[] = {
    "qwen4exp.block_count",
    "qwen4exp.context_length",
    "qwen4exp.embedding_length",
    "qwen4exp.attention.head_count",
    "qwen4exp.attention.head_count_kv",
    "qwen4exp.rope.freq_base",
    "qwen4exp.rope.dimension_count",
    "qwen4exp.rope.dimension_sections",
    "qwen4exp.attention.layer_norm_rms_epsilon",
    "qwen4exp.attention.key_length",
    "qwen4exp.attention.value_length",
    "qwen4exp.expert_count",
    "qwen4exp.expert_used_count",
    "qwen4exp.expert_feed_forward_length",
    "qwen4exp.expert_shared_feed_forward_length",
    "qwen4exp.ssm.conv_kernel",
    "qwen4exp.ssm.state_size",
    "qwen4exp.ssm.group_count",
    "qwen4exp.ssm.time_step_rank",
    "qwen4exp.ssm.inner_size",
    "qwen4exp.hyper_connection.count",
    "qwen4exp.hyper_connection.low_rank",
    "qwen4exp.attention.indexer.head_count",
    "qwen4exp.attention.indexer.key_length",
    "qwen4exp.attention.indexer.top_k",
    "qwen4exp.ple.ngram_size",
    "qwen4exp.ple.heads_per_ngram",
    "qwen4exp.ple.conv_kernel",
    "qwen4exp.ple.eos_token_id",
    "qwen4exp.ple.layer_multipliers",
    "qwen4exp.ple.head_offsets",
    "qwen4exp.ple.head_vocab_sizes",
    "qwen4exp.embedding_length_per_layer_input",
    "general.architecture",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.merges",
};

static void missing_keys_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(required); i++) {
        char other[128];
        snprintf(other, sizeof other, "%s", required[i]);
        other[0] = 'Q';
        model_bytes bytes = copy();
        model_bytes_rename(&bytes, required[i], other);
        assert_refused(bytes, QSA_E_FORMAT, required[i]);
    }
}

/* Numbers that must not be 0: of the required ones all but arrays, text, a token and theta, which libqsa refuses. */
static bool may_be_zero(const char *key)
{
    static const char *const others[] = {"freq_base",   "sections", "eos_token_id",
                                         "multipliers", "offsets",  "vocab_sizes"};
    for (size_t i = 0; i < COUNT(others); i++)
        if (strstr(key, others[i]))
            return true;
    return strncmp(key, "qwen4exp.", strlen("qwen4exp.")) != 0;
}

static void zeros_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(required); i++) {
        if (may_be_zero(required[i]))
            continue;
        model_bytes bytes = copy();
        model_bytes_set_u32(&bytes, required[i], 0); /* the bits of the f32 0 as well */
        assert_refused(bytes, QSA_E_FORMAT, required[i]);
    }
}

typedef struct wrong_value {
    const char *key;
    uint32_t value;
    qsa_status status;
    const char *word;
} wrong_value;

static void values_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const wrong_value wrong[] = {
        {"qwen4exp.block_count", 7, QSA_E_FORMAT, "recurrent_layers"},
        {"qwen4exp.block_count", 1025, QSA_E_LIMIT, "block_count"},
        {"qwen4exp.embedding_length", 96, QSA_E_FORMAT, ""},
        {"qwen4exp.embedding_length", 1u << 21, QSA_E_LIMIT, "embedding_length"},
        {"qwen4exp.full_attention_interval", 3, QSA_E_FORMAT, "full_attention_interval"},
        {"qwen4exp.full_attention_interval", 0, QSA_E_FORMAT, "full_attention_interval"},
        {"qwen4exp.attention.head_count", 3, QSA_E_FORMAT, "heads"},
        {"qwen4exp.attention.value_length", 32, QSA_E_FORMAT, "value_length"},
        {"qwen4exp.attention.indexer.top_k", 33, QSA_E_FORMAT, "budget"},
        {"qwen4exp.rope.dimension_count", 15, QSA_E_FORMAT, "rotary"},
        {"qwen4exp.rope.freq_base", 0, QSA_E_FORMAT, "theta"},
        {"qwen4exp.hyper_connection.count", 1, QSA_E_FORMAT, "hyper_connection.count"},
        {"qwen4exp.hyper_connection.count", 3, QSA_E_FORMAT, "hc_norm"},
        {"qwen4exp.expert_used_count", 7, QSA_E_FORMAT, "expert_used_count"},
        {"qwen4exp.expert_count", 5, QSA_E_FORMAT, "ffn_gate_inp"},
        {"qwen4exp.ssm.inner_size", 64, QSA_E_FORMAT, "inner_size"},
        {"qwen4exp.ssm.group_count", 3, QSA_E_FORMAT, "group_count"},
        {"qwen4exp.ssm.conv_kernel", 5, QSA_E_FORMAT, "ssm_conv1d"},
        {"qwen4exp.ple.eos_token_id", 576, QSA_E_FORMAT, "eos_token_id"},
        {"qwen4exp.ple.heads_per_ngram", 3, QSA_E_FORMAT, "6 rows"},
        {"qwen4exp.ple.ngram_size", 1, QSA_E_FORMAT, "ngram_size"},
        {"qwen4exp.embedding_length_per_layer_input", 32, QSA_E_FORMAT, "per_layer_input"},
        {"tokenizer.ggml.eos_token_id", 600, QSA_E_FORMAT, "eos"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        model_bytes bytes = copy();
        model_bytes_set_u32(&bytes, wrong[i].key, wrong[i].value);
        assert_refused(bytes, wrong[i].status, wrong[i].word);
    }
}

static void other_architectures_and_tokenizers_are_named(void **state)
{
    (void)state;
    model_bytes bytes = copy();
    memcpy(model_bytes_key(&bytes, "general.architecture") + sizeof(uint64_t), "qwen9exp", 8);
    assert_refused(bytes, QSA_E_UNSUPPORTED, "qwen9exp");
    bytes = copy();
    memcpy(model_bytes_key(&bytes, "tokenizer.ggml.pre") + sizeof(uint64_t), "qwen99", 6);
    assert_refused(bytes, QSA_E_UNSUPPORTED, "qwen99");
    bytes = copy();
    memcpy(model_bytes_key(&bytes, "tokenizer.ggml.model") + sizeof(uint64_t), "t5t5", 4);
    assert_refused(bytes, QSA_E_UNSUPPORTED, "t5t5");
}

/* Elements of an array key, behind its element type and count. */
static uint8_t *elements(model_bytes *file, const char *key)
{
    return model_bytes_key(file, key) + sizeof(uint32_t) + sizeof(uint64_t);
}

static void ratios_must_be_one_on_qsa_layers(void **state)
{
    (void)state;
    static const int32_t wrong[][2] = {{3, 8}, {3, 0}, {7, 2}, {0, 4}, {3, -4}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        model_bytes bytes = copy();
        memcpy(elements(&bytes, "qwen4exp.attention.compress_ratios") + 4 * wrong[i][0], &wrong[i][1], 4);
        assert_refused(bytes, QSA_E_FORMAT, "compress_ratios");
    }
    model_bytes bytes = copy();
    for (int layer = 3; layer < 8; layer += 4)
        memcpy(elements(&bytes, "qwen4exp.attention.compress_ratios") + 4 * layer, &(int32_t){3}, 4);
    assert_refused(bytes, QSA_E_FORMAT, "ratio");
}

static void ngram_numbers_are_checked(void **state)
{
    (void)state;
    const uint64_t huge = UINT64_C(1) << 62, none = 0;
    model_bytes bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.layer_multipliers") + 8, &huge, 8);
    assert_refused(bytes, QSA_E_FORMAT, "layer_multipliers[1]");
    bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.head_vocab_sizes") + 16, &none, 8);
    assert_refused(bytes, QSA_E_FORMAT, "head_vocab_sizes[2]");
    bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.head_offsets") + 24, &(uint64_t){700}, 8);
    assert_refused(bytes, QSA_E_FORMAT, "per_layer_token_embd.weight");
    bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.head_offsets") + 24, &(uint64_t){UINT64_MAX - 5}, 8);
    assert_refused(bytes, QSA_E_FORMAT, "head_vocab_sizes[3]");
    bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.layers"), &(int32_t){8}, 4);
    assert_refused(bytes, QSA_E_FORMAT, "ple.layers");
    bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.layers"), &(int32_t){2}, 4);
    assert_refused(bytes, QSA_E_FORMAT, "blk.2.ple_");
}

/* The largest multiplier whose products with every token stay below 2^63 is legal. */
static void largest_multiplier_is_taken(void **state)
{
    (void)state;
    const uint64_t most = ((UINT64_C(1) << 63) - 1) / 575;
    model_bytes bytes = copy();
    memcpy(elements(&bytes, "qwen4exp.ple.layer_multipliers"), &most, 8);
    assert_int_equal(model_bytes_refusal(&bytes), QSA_OK);
    const uint64_t more = most + 1;
    memcpy(elements(&bytes, "qwen4exp.ple.layer_multipliers"), &more, 8);
    assert_refused(bytes, QSA_E_FORMAT, "layer_multipliers[0]");
}

/* ---- tensors ---- */

static const char *const tensors[] = {
    "token_embd.weight",
    "output_hc_norm.weight",
    "output_hc_down.weight",
    "output_hc_up.weight",
    "per_layer_token_embd.weight",
    "blk.0.hc_attn_norm.weight",
    "blk.0.hc_attn_down.weight",
    "blk.0.hc_attn_up.weight",
    "blk.0.hc_attn_inject.weight",
    "blk.7.hc_ffn_norm.weight",
    "blk.7.hc_ffn_down.weight",
    "blk.7.hc_ffn_up.weight",
    "blk.7.hc_ffn_inject.weight",
    "blk.5.ffn_gate_inp.weight",
    "blk.5.ffn_gate_up_exps.weight",
    "blk.5.ffn_down_exps.weight",
    "blk.5.ffn_gate_inp_shexp.weight",
    "blk.5.ffn_gate_shexp.weight",
    "blk.5.ffn_up_shexp.weight",
    "blk.5.ffn_down_shexp.weight",
    "blk.3.attn_q.weight",
    "blk.3.attn_k.weight",
    "blk.3.attn_v.weight",
    "blk.3.attn_output.weight",
    "blk.3.attn_q_norm.weight",
    "blk.3.attn_k_norm.weight",
    "blk.3.indexer.q_proj.weight",
    "blk.3.indexer.k_proj.weight",
    "blk.3.indexer.q_norm.weight",
    "blk.3.indexer.k_norm.weight",
    "blk.2.attn_qkv.weight",
    "blk.2.attn_gate.weight",
    "blk.2.ssm_conv1d.weight",
    "blk.2.ssm_dt.bias",
    "blk.2.ssm_a",
    "blk.2.ssm_beta.weight",
    "blk.2.ssm_alpha.weight",
    "blk.2.ssm_norm.weight",
    "blk.2.ssm_out.weight",
    "blk.1.ple_key.weight",
    "blk.1.ple_value.weight",
    "blk.1.ple_norm_key.weight",
    "blk.1.ple_norm_query.weight",
    "blk.1.ple_norm_conv.weight",
    "blk.1.ple_conv1d.weight",
};

static void missing_tensors_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tensors); i++) {
        char other[128];
        snprintf(other, sizeof other, "%s", tensors[i]);
        other[strlen(other) - 1] = '_';
        model_bytes bytes = copy();
        model_bytes_rename(&bytes, tensors[i], other);
        /* Without the fused experts the file lacks the separate ones. */
        const char *named = strstr(tensors[i], "gate_up_exps") ? "blk.5.ffn_gate_exps.weight" : tensors[i];
        assert_refused(bytes, QSA_E_FORMAT, named);
    }
}

/* A vector as a column, a column as a vector: as many elements, another shape. */
static void tensors_of_another_shape_are_named(void **state)
{
    (void)state;
    size_t changed = 0;
    for (size_t i = 0; i < COUNT(tensors); i++) {
        model_bytes bytes = copy();
        uint8_t *info = model_bytes_tensor(&bytes, tensors[i]);
        uint32_t dims;
        uint64_t d0, d1;
        memcpy(&dims, info, sizeof dims);
        memcpy(&d0, info + 4, sizeof d0);
        memcpy(&d1, info + 12, sizeof d1);
        if (dims != 2 || d1 % 2 != 0 || strcmp(tensors[i], "token_embd.weight") == 0 ||
            strcmp(tensors[i], "per_layer_token_embd.weight") == 0) {
            free(bytes.data);
            continue; /* the rows of these two may be any number */
        }
        d0 *= 2;
        d1 /= 2;
        memcpy(info + 4, &d0, sizeof d0);
        memcpy(info + 12, &d1, sizeof d1);
        changed++;
        assert_refused(bytes, QSA_E_FORMAT, tensors[i]);
    }
    assert_true(changed > 20);
}

static void norm_that_is_not_finite_is_named(void **state)
{
    (void)state;
    qsa_model *model = model_bytes_open(&original);
    qsa_norm_weights norms;
    uint32_t layer = 0;
    model_ok(qsa_model_get_norms(model, 1, &layer, &norms));
    assert_int_equal(layer, 7);
    uint8_t row[64 * sizeof(float)];
    memcpy(row, norms.q, sizeof row);
    qsa_model_close(model);
    model_bytes bytes = copy();
    size_t at = 0;
    while (memcmp(bytes.data + at, row, sizeof row) != 0)
        at++;
    memset(bytes.data + at + 12, 0xff, 4);
    assert_refused(bytes, QSA_E_NONFINITE, "blk.7.attn_q_norm.weight");
}

/* ---- what is optional ---- */

static void optional_keys_have_defaults(void **state)
{
    (void)state;
    static const char *const optional[] = {
        "qwen4exp.full_attention_interval", "qwen4exp.attention.recurrent_layers",
        "qwen4exp.ple.image_token_id",      "general.name",
        "tokenizer.ggml.eos_token_id",
    };
    for (size_t i = 0; i < COUNT(optional); i++) {
        char other[128];
        snprintf(other, sizeof other, "%s", optional[i]);
        other[0] = 'Q';
        model_bytes bytes = copy();
        model_bytes_rename(&bytes, optional[i], other);
        assert_int_equal(model_bytes_refusal(&bytes), QSA_OK);
        free(bytes.data);
    }
}

/* Without output.weight the embedding is used both ways. */
static void output_may_be_tied(void **state)
{
    (void)state;
    model_bytes bytes = copy();
    model_bytes_rename(&bytes, "output.weight", "mtp.ut.weight");
    qsa_model *model = model_bytes_open(&bytes);
    const int32_t tokens[] = {5, 6, 7};
    const qsa_context_options options = model_options(1, 4, 1);
    free(model_run(model, &options, tokens, 3));
    qsa_model_close(model);
    free(bytes.data);
}

static void info_says_what_the_file_says(void **state)
{
    (void)state;
    qsa_model_info info;
    qsa_model *model = model_bytes_open(&original);
    qsa_model_get_info(model, &info);
    assert_string_equal(info.name, "qsa-tiny");
    assert_string_equal(info.architecture, "qwen4exp");
    assert_string_equal(info.tokenizer, "qwen35");
    assert_string_equal(info.main_type, "q8_0");
    assert_int_equal(info.layers, 8);
    assert_int_equal(info.qsa.layers, 2);
    assert_int_equal(info.vocabulary, 576);
    assert_int_equal(info.qsa.budget, 32);
    assert_int_equal(info.qsa.ratio, 4);
    assert_int_equal(info.qsa.rotary_dim, 16);
    assert_int_equal(info.qsa.sections[0], 3);
    assert_int_equal(info.qsa.sections[2], 2);
    assert_int_equal(info.experts_used, 2);
    assert_int_equal(info.ngram_layers, 1);
    assert_int_equal(info.tensor_count, 206);
    assert_int_equal(info.eos, 556);
    assert_int_equal(info.file_bytes, original.size);
    assert_true(info.qsa.yarn.factor == 0.0f);
    assert_false(info.ratios_missing);
    qsa_model_close(model);
    qsa_model_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_ggml_are_kept_after_another_file_was_open),
        cmocka_unit_test(missing_keys_are_named),
        cmocka_unit_test(zeros_are_named),
        cmocka_unit_test(values_that_do_not_fit_are_named),
        cmocka_unit_test(other_architectures_and_tokenizers_are_named),
        cmocka_unit_test(ratios_must_be_one_on_qsa_layers),
        cmocka_unit_test(ngram_numbers_are_checked),
        cmocka_unit_test(largest_multiplier_is_taken),
        cmocka_unit_test(missing_tensors_are_named),
        cmocka_unit_test(tensors_of_another_shape_are_named),
        cmocka_unit_test(norm_that_is_not_finite_is_named),
        cmocka_unit_test(optional_keys_have_defaults),
        cmocka_unit_test(output_may_be_tied),
        cmocka_unit_test(info_says_what_the_file_says),
    };
    return cmocka_run_group_tests(tests, read_original, free_original);
}
