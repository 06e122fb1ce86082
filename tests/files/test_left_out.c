/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing of a file is dropped in silence: every tensor and key is read, listed with a reason, or refused by name. */
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "qwen4exp." name

static const qsa_left_out *find(const qsa_model *model, const char *name)
{
    size_t n;
    const qsa_left_out *items = qsa_model_left_out(model, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(items[i].name, name) == 0)
            return &items[i];
    return NULL;
}

/* ---- tensors ---- */

static void unknown_tensors_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {
        "output_norm.weight",  "blk.0.ffn_gate_exps.scale", "blk.3.attn_sinks.weight",    "rope_freqs.weight",
        "blk.0.attn_q.weight", "blk.8.attn_norm.weight",    "blk.2.ffn_exp_probs_b.bias", "token_embd.scale"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rewrite r = rewrite_begin();
        rewrite_add(&r, names[i], 64, 0, 1);
        rewrite_refused(&r, QSA_E_UNSUPPORTED, names[i]);
    }
}

static void unneeded_tensors_are_listed(void **state)
{
    (void)state;
    static const char *const names[] = {"v.blk.0.attn_q.weight", "mm.0.weight", "blk.0.attn_qkv.input_scale",
                                        "mtp.fc.weight"};
    rewrite r = rewrite_begin();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        rewrite_add(&r, names[i], 64, 0, 1);
    qsa_model *model = rewrite_open_good(&r);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const qsa_left_out *item = find(model, names[i]);
        assert_non_null(item);
        assert_true(item->is_tensor && item->bytes == 256 && item->reason[0]);
    }
    assert_null(find(model, "output.weight"));
    rewrite_same(model, rewrite_plain());
}

/* A fused tensor beside its parts: one of them would be ignored. */
static void tensors_in_two_forms_are_refused(void **state)
{
    (void)state;
    rewrite r = rewrite_begin();
    rewrite_add(&r, "blk.0.ffn_up_exps.weight", 64, 32 * 6, 1);
    rewrite_refused(&r, QSA_E_UNSUPPORTED, "blk.0.ffn_up_exps.weight");
}

/* ---- keys ---- */

static void unknown_keys_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const keys[] = {KEY("rope.scaling.long_factor_scale"), KEY("attention.temperature_scale"),
                                       KEY("hyper_connection.epsilon"), "tokenizer.ggml.normalizer"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        rewrite r = rewrite_begin();
        gguf_set_val_f32(r.to, keys[i], 1);
        rewrite_refused(&r, QSA_E_UNSUPPORTED, keys[i]);
    }
}

static void keys_that_change_results_are_refused_unless_neutral(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float neutral, other;
    } cases[] = {{KEY("logit_scale"), 1, 0.5f},          {KEY("final_logit_softcapping"), 0, 30},
                 {KEY("attn_logit_softcapping"), 0, 50}, {KEY("expert_weights_scale"), 1, 2.5f},
                 {KEY("attention.scale"), 0, 0.25f},     {KEY("residual_scale"), 1, 0.22f},
                 {KEY("expert_gating_func"), 1, 2},      {KEY("attention.sliding_window"), 0, 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rewrite r = rewrite_begin();
        gguf_set_val_f32(r.to, cases[i].key, cases[i].neutral);
        qsa_model *model = rewrite_open_good(&r);
        assert_non_null(find(model, cases[i].key));
        qsa_model_close(model);
        r = rewrite_begin();
        gguf_set_val_f32(r.to, cases[i].key, cases[i].other);
        rewrite_refused(&r, QSA_E_UNSUPPORTED, cases[i].key);
    }
}

static void unneeded_keys_are_listed(void **state)
{
    (void)state;
    static const char *const keys[] = {"general.quantized_by", "tokenizer.chat_template", "quantize.imatrix.file",
                                       "somebody.build"};
    rewrite r = rewrite_begin();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        gguf_set_val_str(r.to, keys[i], "x");
    qsa_model *model = rewrite_open_good(&r);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_non_null(find(model, keys[i]));
        assert_false(find(model, keys[i])->is_tensor);
    }
    assert_null(find(model, KEY("block_count")));
    rewrite_same(model, rewrite_plain());
}

static void other_kinds_of_file_are_refused(void **state)
{
    (void)state;
    static const char *const types[] = {"adapter", "mmproj", "imatrix"};
    for (size_t i = 0; i < 3; i++) {
        rewrite r = rewrite_begin();
        gguf_set_val_str(r.to, "general.type", types[i]);
        rewrite_refused(&r, QSA_E_UNSUPPORTED, types[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_tensors_are_refused_by_name),
        cmocka_unit_test(unneeded_tensors_are_listed),
        cmocka_unit_test(tensors_in_two_forms_are_refused),
        cmocka_unit_test(unknown_keys_are_refused_by_name),
        cmocka_unit_test(keys_that_change_results_are_refused_unless_neutral),
        cmocka_unit_test(unneeded_keys_are_listed),
        cmocka_unit_test(other_kinds_of_file_are_refused),
    };
    return cmocka_run_group_tests(tests, rewrite_setup, rewrite_teardown);
}
