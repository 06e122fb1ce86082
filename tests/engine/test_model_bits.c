/* SPDX-License-Identifier: Apache-2.0 */
/* One text whatever the batch and the processor: logits have the same bits for any chunk size, any number of threads,
 * alone or with other sessions, on every instruction set; for native f32, bf16, q8_0 and K-quant weights, experts
 * included. */
/* setenv is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model_fixture.h"

#include "make/quoter.h"
#include "model/model.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 130, COMPANY = 3 };

/* Text-like: every token has predecessors that it had before. */
static void fill_tokens(int32_t *tokens, size_t n, uint32_t vocabulary, uint32_t seed)
{
    uint64_t x = seed;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        tokens[i] =
            i % 40 < 20 || i < 40 ? (int32_t)((x >> 33) % (vocabulary < 200 ? vocabulary : 200)) : tokens[i - 40];
    }
}

static const char *saved_path(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s.session", model_temporary());
    return path;
}

static qsa_context_options options_of(uint32_t sessions, uint32_t chunk, uint32_t threads)
{
    qsa_context_options options = model_options(sessions, chunk, threads);
    options.kv = QSA_KV_BF16;
    options.index = QSA_PROFILE_BF16;
    return options;
}

static void chunks_do_not_matter(const qsa_model *model, const int32_t *tokens, const float *expected)
{
    static const uint32_t chunks[] = {1, 2, 3, 7, 64};
    char what[64];
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        const qsa_context_options options = options_of(1, chunks[i], 1);
        float *found = model_run(model, &options, tokens, TOKENS);
        snprintf(what, sizeof what, "logits in chunks of %u", chunks[i]);
        test_same_floats(what, expected, found, (size_t)TOKENS * model_vocabulary(model));
        free(found);
    }
}

static void threads_do_not_matter(const qsa_model *model, const int32_t *tokens, const float *expected)
{
    static const uint32_t threads[] = {2, 3}, chunks[] = {13, TOKENS};
    char what[64];
    for (size_t i = 0; i < 4; i++) {
        const qsa_context_options options = options_of(1, chunks[i % 2], threads[i / 2]);
        float *found = model_run(model, &options, tokens, TOKENS);
        snprintf(what, sizeof what, "logits of %u threads in chunks of %u", options.threads, options.chunk);
        test_same_floats(what, expected, found, (size_t)TOKENS * model_vocabulary(model));
        free(found);
    }
}

/* The session is the middle item of every batch; the others feed 1, 5 and 2 tokens at a time, it feeds 4. */
static void company_does_not_matter(const qsa_model *model, const int32_t *tokens, const float *expected)
{
    enum { STEP = 4 };
    static const uint32_t steps[COMPANY] = {1, 5, 2};
    const uint32_t vocabulary = model_vocabulary(model);
    const qsa_context_options options = options_of(COMPANY + 1, 16, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context), *others[COMPANY];
    int32_t noise[TOKENS * 2];
    fill_tokens(noise, TOKENS * 2, vocabulary, 99);
    for (int i = 0; i < COMPANY; i++)
        others[i] = model_session(context);
    float *found = test_alloc((size_t)TOKENS * vocabulary, sizeof *found), ignored[1024];
    for (uint32_t fed = 0, n; fed < TOKENS; fed += n) {
        n = TOKENS - fed < STEP ? TOKENS - fed : STEP;
        const qsa_batch_item items[] = {
            {others[0], noise + fed, steps[0], 1, ignored},
            {others[1], noise + fed, steps[1], 0, NULL},
            {session, tokens + fed, n, n, found + (size_t)fed * vocabulary},
            {others[2], noise + fed, steps[2], 0, NULL},
        };
        model_ok(qsa_batch_run(context, items, 4));
    }
    test_same_floats("logits in company", expected, found, (size_t)TOKENS * vocabulary);
    free(found);
    qsa_context_destroy(context);
}

/* Half the tokens on the instruction set `first`, saved, the rest on `second`. */
static void run_in_halves(const qsa_model *model, const char *first, const char *second, const int32_t *tokens,
                          float *logits)
{
    enum { HALF = TOKENS / 2 };
    const qsa_context_options options = options_of(1, 32, 2);
    setenv("QSA_ISA", first, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    model_feed_all(model, context, session, tokens, HALF, 32, logits);
    model_ok(qsa_session_save(session, NULL, saved_path()));
    qsa_context_destroy(context);
    setenv("QSA_ISA", second, 1);
    context = model_context(model, &options);
    model_ok(qsa_session_load(context, saved_path(), NULL, &session));
    model_feed_all(model, context, session, tokens + HALF, TOKENS - HALF, 32,
                   logits + (size_t)HALF * model_vocabulary(model));
    qsa_context_destroy(context);
    unsetenv("QSA_ISA");
}

/* Those of the machine, scalar first. */
static size_t instruction_sets(const char *names[], size_t most)
{
    size_t n = 0;
    const ops_table *table;
    for (size_t i = 0; (table = ops_available(i)) != NULL && n < most; i++)
        names[n++] = table->isa;
    return n;
}

static void instruction_sets_do_not_matter(const qsa_model *model, const int32_t *tokens, const float *expected)
{
    const char *names[8];
    const size_t n = instruction_sets(names, 8), floats = (size_t)TOKENS * model_vocabulary(model);
    assert_true(n >= 1);
    float *found = test_alloc(floats, sizeof *found);
    char what[64];
    for (size_t i = 0; i < n; i++) {
        run_in_halves(model, names[i], names[(i + 1) % n], tokens, found);
        snprintf(what, sizeof what, "logits of %s, then %s", names[i], names[(i + 1) % n]);
        test_same_floats(what, expected, found, floats);
    }
    free(found);
}

static void check_model(qsa_model *model)
{
    const uint32_t vocabulary = model_vocabulary(model);
    assert_true(vocabulary <= 1024);
    int32_t tokens[TOKENS];
    fill_tokens(tokens, TOKENS, vocabulary, 5);
    const qsa_context_options options = options_of(1, TOKENS, 1);
    float *expected = model_run(model, &options, tokens, TOKENS);
    chunks_do_not_matter(model, tokens, expected);
    threads_do_not_matter(model, tokens, expected);
    company_does_not_matter(model, tokens, expected);
    instruction_sets_do_not_matter(model, tokens, expected);
    free(expected);
    qsa_model_close(model);
}

static void check_quoter(quoter_type type, enum ggml_type expected)
{
    quoter_options options;
    quoter_options_small(&options);
    options.type = type;
    options.expert_width = 256; /* so that the experts, too, are of the type */
    assert_int_equal(quoter_write(model_temporary(), &options), QSA_OK);
    qsa_model *model = NULL;
    model_ok(qsa_model_open(model_temporary(), NULL, &model));
    const layer_weights *layer = &model->weights.layers[3];
    assert_int_equal(layer->attention.q.format, expected);
    assert_int_equal(layer->experts.up.first.format, expected);
    assert_int_equal(layer->experts.down.first.format, expected);
    check_model(model);
}

static void tiny_bf16(void **state)
{
    (void)state;
    check_model(model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_NATIVE));
}

static void tiny_q8_0(void **state)
{
    (void)state;
    check_model(model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE));
}

static void tiny_dequantised(void **state)
{
    (void)state;
    check_model(model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_F32));
}

static void quoter_f32(void **state)
{
    (void)state;
    check_quoter(QUOTER_F32, GGML_TYPE_F32);
}

static void quoter_bf16(void **state)
{
    (void)state;
    check_quoter(QUOTER_BF16, GGML_TYPE_BF16);
}

static void quoter_q8_0(void **state)
{
    (void)state;
    check_quoter(QUOTER_Q8_0, GGML_TYPE_Q8_0);
}

static void quoter_q4_k(void **state)
{
    (void)state;
    check_quoter(QUOTER_Q4_K, GGML_TYPE_Q4_K);
}

static void quoter_q6_k(void **state)
{
    (void)state;
    check_quoter(QUOTER_Q6_K, GGML_TYPE_Q6_K);
}

static int remove_files(void **state)
{
    remove(saved_path());
    return model_temporary_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_bf16),   cmocka_unit_test(tiny_q8_0),   cmocka_unit_test(tiny_dequantised),
        cmocka_unit_test(quoter_f32),  cmocka_unit_test(quoter_bf16), cmocka_unit_test(quoter_q8_0),
        cmocka_unit_test(quoter_q4_k), cmocka_unit_test(quoter_q6_k),
    };
    return cmocka_run_group_tests(tests, model_temporary_make, remove_files);
}
