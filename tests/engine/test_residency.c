/* SPDX-License-Identifier: Apache-2.0 */
/* Where the weights are, mapped, locked or loaded, changes no bit of a result; and what the plan says of it. */
#define _DEFAULT_SOURCE /* setrlimit */
#include "model_fixture.h"

#include "file/gguf_residency.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TOKENS = 40 };

static qsa_model *open_as(const char *name, qsa_residency residency, qsa_weight_storage weights)
{
    char path[512];
    qsa_model *model = NULL;
    qsa_model_options o;
    qsa_model_options_init(&o);
    o.residency = residency;
    o.weights = weights;
    snprintf(path, sizeof path, "%s/model/%s", QSA_GOLDEN_DIR, name);
    model_ok(qsa_model_open(path, &o, &model));
    return model;
}

static float *logits_of(const qsa_model *model)
{
    const qsa_context_options o = model_options(1, 16, 2);
    int32_t tokens[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++)
        tokens[i] = i * 13 % (int32_t)model_vocabulary(model);
    return model_run(model, &o, tokens, TOKENS);
}

static void no_residency_changes_a_bit(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-q8_0.gguf", "tiny-bf16.gguf"};
    for (size_t i = 0; i < 2; i++) {
        qsa_model *mapped = open_as(names[i], QSA_RESIDENCY_MAPPED, QSA_WEIGHTS_NATIVE);
        float *expected = logits_of(mapped);
        for (int r = QSA_RESIDENCY_LOCKED; r <= QSA_RESIDENCY_LOADED; r++) {
            qsa_model *other = open_as(names[i], (qsa_residency)r, QSA_WEIGHTS_NATIVE);
            float *found = logits_of(other);
            test_same_floats("logits", expected, found, (size_t)TOKENS * model_vocabulary(mapped));
            free(found);
            qsa_model_close(other);
        }
        free(expected);
        qsa_model_close(mapped);
    }
}

/* Loaded: everything but the two tables, which stay mapped whatever the residency. */
static void loaded_weights_are_counted_as_taken(void **state)
{
    (void)state;
    for (int r = QSA_RESIDENCY_MAPPED; r <= QSA_RESIDENCY_LOADED; r++) {
        qsa_model *model = open_as("tiny-q8_0.gguf", (qsa_residency)r, QSA_WEIGHTS_NATIVE);
        qsa_plan plan;
        model_ok(qsa_context_plan(model, NULL, &plan));
        const uint64_t resident = plan.resident_bytes - plan.context_bytes - plan.copied_bytes;
        if (r == QSA_RESIDENCY_MAPPED)
            assert_int_equal(plan.taken_bytes, 0);
        else
            assert_in_range(plan.taken_bytes, resident, resident + gguf_file_tensor_count(model->file) * 32);
        const void *weights = model->weights.layers[0].experts.router.data;
        assert_int_equal(qsa_model_file_at(model, weights) != NULL, r != QSA_RESIDENCY_LOADED);
        assert_non_null(qsa_model_file_at(model, model->weights.ngram_rows.data));
        assert_non_null(qsa_model_file_at(model, model->weights.embedding.data));
        assert_null(qsa_model_file_at(model, model));
        assert_true(model->maps_table && model->maps_embedding);
        qsa_model_close(model);
    }
    assert_null(qsa_model_file_at(NULL, state));
}

/* Dequantised tables are in memory: nothing is to be fetched. */
static void dequantised_weights_are_neither_loaded_nor_fetched(void **state)
{
    (void)state;
    qsa_model *model = open_as("tiny-bf16.gguf", QSA_RESIDENCY_LOADED, QSA_WEIGHTS_F32);
    assert_false(model->maps_table || model->maps_embedding);
    assert_true(model->taken_bytes < model->weights.owned_bytes / 4);
    free(logits_of(model));
    qsa_model_close(model);
}

static void lock_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    struct rlimit before, none;
    char path[512];
    qsa_model *model = NULL;
    qsa_model_options o;
    if (geteuid() == 0)
        skip(); /* root may lock anything */
    qsa_model_options_init(&o);
    o.residency = QSA_RESIDENCY_LOCKED;
    snprintf(path, sizeof path, "%s/model/tiny-q8_0.gguf", QSA_GOLDEN_DIR);
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    const qsa_status status = qsa_model_open(path, &o, &model);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    assert_int_equal(status, QSA_E_MEMORY);
    assert_null(model);
    assert_non_null(strstr(qsa_engine_error(), "ulimit -l"));
}

static void unknown_residency_is_refused(void **state)
{
    (void)state;
    qsa_model *model = NULL;
    qsa_model_options o;
    qsa_model_options_init(&o);
    o.residency = (qsa_residency)3;
    assert_int_equal(qsa_model_open("model.gguf", &o, &model), QSA_E_ARGUMENT);
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_residency_changes_a_bit),
        cmocka_unit_test(loaded_weights_are_counted_as_taken),
        cmocka_unit_test(dequantised_weights_are_neither_loaded_nor_fetched),
        cmocka_unit_test(lock_beyond_the_limit_is_refused),
        cmocka_unit_test(unknown_residency_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
