/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that published files have: draft blocks, lists per layer, scales, rope scaling. */
#include "rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(name) "qwen4exp." name

enum { LAYERS = 8, EXPERTS = 6, VOCABULARY = 576 };

static qsa_model_info info_of(const qsa_model *model)
{
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    return info;
}

/* ---- draft blocks ---- */

static void add_drafts(rewrite *r, uint32_t n)
{
    char name[64];
    gguf_set_val_u32(r->to, KEY("nextn_predict_layers"), n);
    gguf_set_val_u32(r->to, KEY("block_count"), LAYERS + n);
    for (uint32_t i = LAYERS; i < LAYERS + n; i++) {
        snprintf(name, sizeof name, "blk.%u.nextn.eh_proj.weight", i);
        rewrite_add(r, name, 128, 64, 1);
        snprintf(name, sizeof name, "blk.%u.attn_q.weight", i);
        rewrite_add(r, name, 64, 512, 1);
    }
}

static void draft_blocks_are_left_out(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        rewrite r = rewrite_begin(); /* the lists have an entry per layer */
        add_drafts(&r, n);
        qsa_model *model = rewrite_open_good(&r);
        size_t left_out;
        (void)qsa_model_left_out(model, &left_out);
        assert_true(left_out > 2 * n);
        assert_int_equal(info_of(model).layers, LAYERS);
        assert_int_equal(info_of(model).draft_layers, n);
        rewrite_same(model, rewrite_plain());
    }
}

/* Entries of lists for the draft blocks are read past; without lists the interval counts. */
static void lists_may_have_entries_for_draft_blocks(void **state)
{
    (void)state;
    static const int8_t recurrent[] = {1, 1, 1, 0, 1, 1, 1, 0, 0};
    static const int32_t ratios[] = {0, 0, 0, 4, 0, 0, 0, 4, 0};
    static const uint32_t heads[] = {0, 0, 0, 2, 0, 0, 0, 2, 7};
    rewrite r = rewrite_begin();
    add_drafts(&r, 1);
    gguf_set_arr_data(r.to, KEY("attention.recurrent_layers"), GGUF_TYPE_BOOL, recurrent, 9);
    gguf_set_arr_data(r.to, KEY("attention.compress_ratios"), GGUF_TYPE_INT32, ratios, 9);
    gguf_set_arr_data(r.to, KEY("attention.head_count_kv"), GGUF_TYPE_UINT32, heads, 9);
    rewrite_same(rewrite_open_good(&r), rewrite_plain());
    r = rewrite_begin();
    add_drafts(&r, 1);
    gguf_remove_key(r.to, KEY("attention.recurrent_layers"));
    gguf_remove_key(r.to, KEY("attention.compress_ratios"));
    rewrite_same(rewrite_open_good(&r), rewrite_plain());
}

static void impossible_draft_blocks_are_refused(void **state)
{
    (void)state;
    rewrite r = rewrite_begin();
    gguf_set_val_u32(r.to, KEY("nextn_predict_layers"), LAYERS);
    rewrite_refused(&r, QSA_E_FORMAT, "nextn_predict_layers is 8");
    r = rewrite_begin();
    add_drafts(&r, 1);
    rewrite_add(&r, "blk.9.nextn.enorm.weight", 64, 0, 1); /* behind the last block */
    rewrite_refused(&r, QSA_E_UNSUPPORTED, "blk.9.nextn.enorm.weight");
}

/* ---- lists per layer ---- */

static void a_number_may_be_a_list_that_agrees(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value, other; /* other: of the layers that are not QSA layers */
    } cases[] = {{KEY("attention.head_count_kv"), 2, 0},  {KEY("attention.head_count_kv"), 2, 2},
                 {KEY("attention.head_count"), 4, 0},     {KEY("attention.key_length"), 64, 64},
                 {KEY("attention.indexer.top_k"), 32, 0}, {KEY("expert_feed_forward_length"), 32, 32},
                 {KEY("expert_used_count"), 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t list[LAYERS];
        for (int layer = 0; layer < LAYERS; layer++)
            list[layer] = layer % 4 == 3 ? cases[i].value : cases[i].other;
        rewrite r = rewrite_begin();
        gguf_set_arr_data(r.to, cases[i].key, GGUF_TYPE_UINT32, list, LAYERS);
        rewrite_same(rewrite_open_good(&r), rewrite_plain());
    }
}

static void lists_that_disagree_are_refused(void **state)
{
    (void)state;
    static const uint32_t two_kinds[] = {0, 0, 0, 2, 0, 0, 0, 4}, of_delta[] = {4, 0, 0, 2, 0, 0, 0, 2},
                          none[] = {0, 0, 0, 0, 0, 0, 0, 2}, experts[] = {32, 32, 32, 32, 32, 32, 32, 0};
    static const struct {
        const char *key, *says;
        const uint32_t *list;
        size_t n;
    } cases[] = {{KEY("attention.head_count_kv"), "is 4 on layer 7", two_kinds, 8},
                 {KEY("attention.head_count_kv"), "is 2 on layer 3", of_delta, 8},
                 {KEY("attention.head_count_kv"), "is 0 on layer 3", none, 8},
                 {KEY("expert_feed_forward_length"), "is 0 on layer 7", experts, 8},
                 {KEY("attention.head_count_kv"), "has 7 elements", two_kinds, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rewrite r = rewrite_begin();
        gguf_set_arr_data(r.to, cases[i].key, GGUF_TYPE_UINT32, cases[i].list, cases[i].n);
        rewrite_refused(&r, QSA_E_FORMAT, cases[i].says);
    }
}

static void ratios_may_be_a_number_zero_or_missing(void **state)
{
    (void)state;
    static const int32_t zeros[LAYERS] = {0};
    rewrite r = rewrite_begin();
    gguf_set_val_u32(r.to, KEY("attention.compress_ratios"), 4);
    rewrite_same(rewrite_open_good(&r), rewrite_plain());
    r = rewrite_begin();
    gguf_set_arr_data(r.to, KEY("attention.compress_ratios"), GGUF_TYPE_INT32, zeros, LAYERS);
    qsa_model *model = rewrite_open_good(&r);
    assert_true(info_of(model).ratios_missing);
    rewrite_same(model, rewrite_plain());
    r = rewrite_begin();
    gguf_remove_key(r.to, KEY("attention.compress_ratios"));
    rewrite_same(rewrite_open_good(&r), rewrite_plain());
}

/* ---- scales ---- */

static void multiply_f16(uint8_t *at, float factor)
{
    ggml_fp16_t half;
    memcpy(&half, at, sizeof half);
    half = ggml_fp32_to_fp16(ggml_fp16_to_fp32(half) * factor);
    memcpy(at, &half, sizeof half);
}

/* Multiplies weights of a tensor, whole blocks, by a power of two, which is exact. */
static void multiply_weights(struct ggml_tensor *t, size_t begin, size_t end, float factor)
{
    const size_t block = (size_t)ggml_blck_size(t->type), bytes = ggml_type_size(t->type);
    for (size_t i = begin / block; i < end / block; i++) {
        uint8_t *at = (uint8_t *)t->data + i * bytes;
        if (t->type == GGML_TYPE_F32)
            *(float *)(void *)at *= factor;
        else
            multiply_f16(at, factor); /* q8_0 begins with its scale, f16 is one */
    }
}

/* Weights times a power of two with a scale that takes it back: the same bits, for every kind of matrix. */
static void scales_multiply_what_products_give(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.0.attn_qkv",       "blk.0.attn_gate",      "blk.0.ssm_out",
                                        "blk.0.ssm_alpha",      "blk.3.attn_q",         "blk.3.attn_k",
                                        "blk.3.attn_v",         "blk.3.attn_output",    "blk.3.ffn_up_shexp",
                                        "blk.3.ffn_gate_shexp", "blk.3.ffn_down_shexp", "output"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        rewrite r = rewrite_begin();
        snprintf(name, sizeof name, "%s.weight", names[i]);
        struct ggml_tensor *t = rewrite_tensor(&r, name);
        multiply_weights(t, 0, (size_t)ggml_nelements(t), 4);
        snprintf(name, sizeof name, "%s.scale", names[i]);
        rewrite_add(&r, name, 1, 0, 0.25f);
        rewrite_same(rewrite_open_good(&r), rewrite_plain());
    }
}

static void every_expert_has_a_scale(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.2.ffn_gate_up_exps", "blk.2.ffn_down_exps", "blk.7.ffn_down_exps"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[64];
        rewrite r = rewrite_begin();
        snprintf(name, sizeof name, "%s.weight", names[i]);
        struct ggml_tensor *t = rewrite_tensor(&r, name);
        snprintf(name, sizeof name, "%s.scale", names[i]);
        float *scales = rewrite_add(&r, name, EXPERTS, 0, 1)->data, factor = 0.5f;
        const size_t each = (size_t)ggml_nelements(t) / EXPERTS;
        for (size_t e = 0; e < EXPERTS; e++, factor *= 2) {
            multiply_weights(t, e * each, (e + 1) * each, factor);
            scales[e] = 1 / factor;
        }
        rewrite_same(rewrite_open_good(&r), rewrite_plain());
    }
}

static void a_scale_changes_the_result(void **state)
{
    (void)state;
    rewrite r = rewrite_begin();
    rewrite_add(&r, "blk.3.attn_v.scale", 1, 0, 0.01f);
    qsa_model *scaled = rewrite_open_good(&r), *plain = rewrite_plain();
    float *x = rewrite_logits(scaled, NULL), *y = rewrite_logits(plain, NULL);
    assert_memory_not_equal(x, y, VOCABULARY * sizeof *x);
    free(x);
    free(y);
    qsa_model_close(scaled);
    qsa_model_close(plain);
}

static void wrong_scales_are_refused(void **state)
{
    (void)state;
    rewrite r = rewrite_begin();
    rewrite_add(&r, "blk.2.ffn_down_exps.scale", EXPERTS + 1, 0, 1);
    rewrite_refused(&r, QSA_E_FORMAT, "blk.2.ffn_down_exps.scale");
    r = rewrite_begin();
    rewrite_add(&r, "blk.3.attn_q.scale", 1, 0, 1.0f / 0.0f);
    rewrite_refused(&r, QSA_E_NONFINITE, "blk.3.attn_q.scale");
}

/* ---- rope scaling ---- */

static void scaling_that_is_not_yarn_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *type; /* NULL: no type */
        float value;
        const char *says;
    } cases[] = {{KEY("rope.scaling.factor"), NULL, 4, "rope.scaling.factor is 4"},
                 {KEY("rope.scaling.factor"), "linear", 2, "rope.scaling.factor is 2"},
                 {KEY("rope.scale_linear"), NULL, 8, "rope.scaling.factor is 8"},
                 {KEY("rope.scaling.factor"), "longrope", 4, "longrope"},
                 {KEY("rope.scaling.yarn_ext_factor"), "yarn", 0.5f, "yarn_ext_factor is 0.5"},
                 {KEY("rope.scaling.attn_factor"), "yarn", 2, "attn_factor is 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rewrite r = rewrite_begin();
        gguf_set_val_f32(r.to, cases[i].key, cases[i].value);
        if (cases[i].type)
            gguf_set_val_str(r.to, KEY("rope.scaling.type"), cases[i].type);
        rewrite_refused(&r, QSA_E_UNSUPPORTED, cases[i].says);
    }
}

static void factors_that_change_nothing_are_accepted(void **state)
{
    (void)state;
    rewrite r = rewrite_begin();
    gguf_set_val_f32(r.to, KEY("rope.scaling.factor"), 1);
    rewrite_same(rewrite_open_good(&r), rewrite_plain());
    r = rewrite_begin();
    gguf_set_val_str(r.to, KEY("rope.scaling.type"), "none");
    gguf_set_val_f32(r.to, KEY("rope.scaling.factor"), 4);
    rewrite_same(rewrite_open_good(&r), rewrite_plain());
}

/* --yarn FACTOR gives what a file with the same keys gives. */
static void yarn_at_run_time_is_yarn_of_the_file(void **state)
{
    (void)state;
    rewrite r = rewrite_begin();
    gguf_set_val_str(r.to, KEY("rope.scaling.type"), "yarn");
    gguf_set_val_f32(r.to, KEY("rope.scaling.factor"), 4);
    qsa_model *file = rewrite_open_good(&r), *plain = rewrite_plain();
    assert_true(info_of(file).qsa.yarn.original_context == 4096);
    qsa_context_options options;
    qsa_context_options_init(&options);
    options.context = 4 * 4096;
    float *x = rewrite_logits(file, NULL), *without = rewrite_logits(plain, NULL);
    options.yarn_factor = 4;
    float *y = rewrite_logits(plain, &options);
    assert_memory_equal(x, y, VOCABULARY * sizeof *x);
    assert_memory_not_equal(x, without, VOCABULARY * sizeof *x);
    free(x);
    free(y);
    free(without);
    qsa_model_close(file);
    qsa_model_close(plain);
}

static void yarn_beyond_its_reach_is_refused(void **state)
{
    (void)state;
    static const struct {
        float factor;
        uint32_t context;
    } cases[] = {{4, 4 * 4096 + 1}, {1, 4097}, {0.5f, 16}, {2000, 16}, {-1, 16}};
    qsa_model *plain = rewrite_plain();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qsa_context_options options;
        qsa_context *context = NULL;
        qsa_context_options_init(&options);
        options.yarn_factor = cases[i].factor;
        options.context = cases[i].context;
        assert_int_equal(qsa_context_create(plain, &options, &context), QSA_E_LIMIT);
        assert_non_null(strstr(qsa_engine_error(), i < 2 ? "YaRN" : "yarn_factor"));
    }
    qsa_model_close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draft_blocks_are_left_out),
        cmocka_unit_test(lists_may_have_entries_for_draft_blocks),
        cmocka_unit_test(impossible_draft_blocks_are_refused),
        cmocka_unit_test(a_number_may_be_a_list_that_agrees),
        cmocka_unit_test(lists_that_disagree_are_refused),
        cmocka_unit_test(ratios_may_be_a_number_zero_or_missing),
        cmocka_unit_test(scales_multiply_what_products_give),
        cmocka_unit_test(every_expert_has_a_scale),
        cmocka_unit_test(a_scale_changes_the_result),
        cmocka_unit_test(wrong_scales_are_refused),
        cmocka_unit_test(scaling_that_is_not_yarn_is_refused_by_name),
        cmocka_unit_test(factors_that_change_nothing_are_accepted),
        cmocka_unit_test(yarn_at_run_time_is_yarn_of_the_file),
        cmocka_unit_test(yarn_beyond_its_reach_is_refused),
    };
    return cmocka_run_group_tests(tests, rewrite_setup, rewrite_teardown);
}
