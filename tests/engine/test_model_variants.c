/* SPDX-License-Identifier: Apache-2.0 */
/* The tiny model written in other ways: fused projections, every tensor type of ggml, YaRN keys, no n-gram embedding.
 */
#include "model_fixture.h"

#include <ggml-cpu.h>
#include <gguf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 44, POOL_BYTES = 64 << 20 };

static int32_t tokens[TOKENS];

/* A model file taken apart: keys, and tensors that a test may replace. */
typedef struct rewriting {
    struct gguf_context *from, *to;
    struct ggml_context *tensors; /* of the file */
    struct ggml_context *pool;    /* of those that replace them */
} rewriting;

static rewriting take_apart(void)
{
    rewriting r = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/model/tiny-bf16.gguf", QSA_GOLDEN_DIR);
    r.from = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = false, .ctx = &r.tensors});
    r.to = gguf_init_empty();
    r.pool = ggml_init((struct ggml_init_params){.mem_size = POOL_BYTES});
    assert_non_null(r.from);
    gguf_set_kv(r.to, r.from);
    return r;
}

static struct ggml_tensor *named(struct ggml_tensor *t, const char *name)
{
    return ggml_set_name(t, name);
}

static float *values_of(const struct ggml_tensor *t)
{
    const size_t n = (size_t)ggml_nelements(t);
    float *values = test_alloc(n, sizeof *values);
    if (t->type == GGML_TYPE_F32)
        memcpy(values, t->data, n * sizeof *values);
    else
        ggml_get_type_traits(t->type)->to_float(t->data, values, (int64_t)n);
    return values;
}

/* The tensor in another type. */
static struct ggml_tensor *converted(rewriting *r, const struct ggml_tensor *t, enum ggml_type type)
{
    struct ggml_tensor *other = ggml_new_tensor(r->pool, type, ggml_n_dims(t), t->ne);
    float *values = values_of(t), importance[1024];
    assert_true(t->ne[0] <= 1024);
    for (int i = 0; i < 1024; i++)
        importance[i] = 1.0f;
    ggml_quantize_chunk(type, values, other->data, 0, ggml_nrows(t), t->ne[0], importance);
    free(values);
    return named(other, t->name);
}

/* Writes what was added and opens it. */
static qsa_status finish(rewriting *r, qsa_model **out_model)
{
    assert_true(gguf_write_to_file(r->to, model_temporary(), false));
    gguf_free(r->from);
    gguf_free(r->to);
    ggml_free(r->tensors);
    ggml_free(r->pool);
    return qsa_model_open(model_temporary(), NULL, out_model);
}

static float *run(const qsa_model *model, uint32_t chunk)
{
    const qsa_context_options options = model_options(1, chunk, 1);
    return model_run(model, &options, tokens, TOKENS);
}

static void add_all(rewriting *r)
{
    for (struct ggml_tensor *t = ggml_get_first_tensor(r->tensors); t; t = ggml_get_next_tensor(r->tensors, t))
        if (gguf_find_tensor(r->from, t->name) >= 0)
            gguf_add_tensor(r->to, t);
}

/* ---- fused projections ---- */

static struct ggml_tensor *fused(rewriting *r, int layer)
{
    static const char *const parts[] = {"q", "k", "v"};
    const struct ggml_tensor *t[3];
    char name[64];
    int64_t rows = 0;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "blk.%d.attn_%s.weight", layer, parts[i]);
        t[i] = ggml_get_tensor(r->tensors, name);
        rows += t[i]->ne[1];
    }
    struct ggml_tensor *all = ggml_new_tensor_2d(r->pool, t[0]->type, t[0]->ne[0], rows);
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        memcpy((char *)all->data + at, t[i]->data, ggml_nbytes(t[i]));
        at += ggml_nbytes(t[i]);
    }
    snprintf(name, sizeof name, "blk.%d.attn_qkv.weight", layer);
    return named(all, name);
}

static bool is_projection(const char *name)
{
    return strstr(name, ".attn_q.weight") || strstr(name, ".attn_k.weight") || strstr(name, ".attn_v.weight");
}

static void fused_projections_give_the_same_bits(void **state)
{
    (void)state;
    rewriting r = take_apart();
    for (struct ggml_tensor *t = ggml_get_first_tensor(r.tensors); t; t = ggml_get_next_tensor(r.tensors, t))
        if (gguf_find_tensor(r.from, t->name) >= 0 && !is_projection(t->name))
            gguf_add_tensor(r.to, t);
    gguf_add_tensor(r.to, fused(&r, 3));
    gguf_add_tensor(r.to, fused(&r, 7));
    qsa_model *model = NULL, *separate = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_NATIVE);
    model_ok(finish(&r, &model));
    float *expected = run(separate, TOKENS), *found = run(model, TOKENS);
    test_same_floats("logits", expected, found, (size_t)TOKENS * model_vocabulary(model));
    free(expected);
    free(found);
    qsa_model_close(model);
    qsa_model_close(separate);
}

/* ---- types ---- */

/* All matrices whose rows allow the type. Convolutions, too, where they are bf16, f16 or f32. */
static void add_converted(rewriting *r, enum ggml_type type)
{
    size_t changed = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(r->tensors); t; t = ggml_get_next_tensor(r->tensors, t)) {
        if (gguf_find_tensor(r->from, t->name) < 0)
            continue;
        const bool fits = t->ne[0] % ggml_blck_size(type) == 0 && ggml_n_dims(t) > 1;
        gguf_add_tensor(r->to, fits ? converted(r, t, type) : t);
        changed += fits;
    }
    assert_true(changed > 10);
}

static void every_type_gives_one_text(void **state)
{
    (void)state;
    static const enum ggml_type types[] = {
        GGML_TYPE_F32,    GGML_TYPE_F16,    GGML_TYPE_BF16,  GGML_TYPE_Q4_0,  GGML_TYPE_Q4_1,
        GGML_TYPE_Q5_0,   GGML_TYPE_Q5_1,   GGML_TYPE_Q8_0,  GGML_TYPE_MXFP4, GGML_TYPE_NVFP4,
        GGML_TYPE_IQ4_NL, GGML_TYPE_Q2_K,   GGML_TYPE_Q3_K,  GGML_TYPE_Q4_K,  GGML_TYPE_Q5_K,
        GGML_TYPE_Q6_K,   GGML_TYPE_IQ4_XS, GGML_TYPE_TQ1_0, GGML_TYPE_TQ2_0,
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        rewriting r = take_apart();
        add_converted(&r, types[i]);
        qsa_model *model = NULL;
        model_ok(finish(&r, &model));
        float *whole = run(model, TOKENS), *pieces = run(model, 1);
        test_same_floats(ggml_type_name(types[i]), whole, pieces, (size_t)TOKENS * model_vocabulary(model));
        free(whole);
        free(pieces);
        qsa_model_close(model);
    }
}

/* ---- keys ---- */

static qsa_status open_with_scaling(const char *type, qsa_model **out_model)
{
    rewriting r = take_apart();
    add_all(&r);
    gguf_set_val_str(r.to, "qwen4exp.rope.scaling.type", type);
    gguf_set_val_f32(r.to, "qwen4exp.rope.scaling.factor", 4.0f);
    gguf_set_val_u32(r.to, "qwen4exp.rope.scaling.original_context_length", 2048);
    gguf_set_val_f32(r.to, "qwen4exp.rope.scaling.yarn_beta_fast", 24.0f);
    gguf_set_val_f32(r.to, "qwen4exp.rope.scaling.yarn_attn_factor", 1.25f);
    return finish(&r, out_model);
}

static void yarn_keys_reach_libqsa(void **state)
{
    (void)state;
    qsa_model *model = NULL, *without = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_NATIVE);
    model_ok(open_with_scaling("yarn", &model));
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    assert_true(info.qsa.yarn.factor == 4.0f);
    assert_true(info.qsa.yarn.original_context == 2048.0f);
    assert_true(info.qsa.yarn.beta_fast == 24.0f);
    assert_true(info.qsa.yarn.beta_slow == 1.0f);
    assert_true(info.qsa.yarn.attention_factor == 1.25f);
    float *plain = run(without, TOKENS), *scaled = run(model, TOKENS);
    const size_t last = (size_t)(TOKENS - 1) * info.vocabulary;
    assert_memory_not_equal(plain + last, scaled + last, info.vocabulary * sizeof *plain);
    free(plain);
    free(scaled);
    qsa_model_close(model);
    qsa_model_close(without);
}

static void other_scalings_are_named(void **state)
{
    (void)state;
    qsa_model *model = NULL;
    model_ok(open_with_scaling("none", &model));
    qsa_model_close(model);
    model = NULL;
    assert_int_equal(open_with_scaling("linear", &model), QSA_E_UNSUPPORTED);
    assert_non_null(strstr(qsa_engine_error(), "linear"));
    assert_null(model);
}

static void model_without_ngrams_works(void **state)
{
    (void)state;
    rewriting r = take_apart();
    for (struct ggml_tensor *t = ggml_get_first_tensor(r.tensors); t; t = ggml_get_next_tensor(r.tensors, t))
        if (gguf_find_tensor(r.from, t->name) >= 0 && strncmp(t->name, "per_layer", 9) != 0 &&
            !strstr(t->name, ".ple_"))
            gguf_add_tensor(r.to, t);
    gguf_remove_key(r.to, "qwen4exp.ple.layers");
    qsa_model *model = NULL;
    model_ok(finish(&r, &model));
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    assert_int_equal(info.ngram_layers, 0);
    float *whole = run(model, TOKENS), *pieces = run(model, 3);
    test_same_floats("logits", whole, pieces, (size_t)TOKENS * info.vocabulary);
    free(whole);
    free(pieces);
    qsa_model_close(model);
}

static int fill_tokens(void **state)
{
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (i * 53 + i / 7) % 550;
    return model_temporary_make(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_projections_give_the_same_bits),
        cmocka_unit_test(every_type_gives_one_text),
        cmocka_unit_test(yarn_keys_reach_libqsa),
        cmocka_unit_test(other_scalings_are_named),
        cmocka_unit_test(model_without_ngrams_works),
    };
    return cmocka_run_group_tests(tests, fill_tokens, model_temporary_remove);
}
