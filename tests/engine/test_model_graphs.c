/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs are kept between batches: as few are built as there are shapes, and a kept one gives the bits of a fresh one.
 */
#include "model_fixture.h"

#include <stdlib.h>

enum { TOKENS = 120 };

static qsa_model *model;
static uint32_t vocabulary;
static int32_t tokens[TOKENS];

static int open_model(void **state)
{
    (void)state;
    model = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_NATIVE);
    vocabulary = model_vocabulary(model);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(golden_bits64(5, (uint64_t)i) % vocabulary);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    qsa_model_close(model);
    return 0;
}

static qsa_context_stats stats_of(const qsa_context *context)
{
    qsa_context_stats stats;
    qsa_context_get_stats(context, &stats);
    return stats;
}

static void token_after_token_runs_one_graph(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, 32, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    float *logits = test_alloc(vocabulary, sizeof *logits);
    model_ok(qsa_session_feed(session, tokens, 1, logits, NULL, NULL));
    const uint64_t built = stats_of(context).graphs_built;
    for (int i = 1; i < TOKENS; i++)
        model_ok(qsa_session_feed(session, tokens + i, 1, logits, NULL, NULL));
    assert_int_equal(stats_of(context).graphs_built, built);
    model_ok(qsa_session_feed(session, tokens, 2, logits, NULL, NULL));
    assert_int_equal(stats_of(context).graphs_built, built + 1);
    model_ok(qsa_session_feed(session, tokens, 2, NULL, NULL, NULL)); /* no logits: another shape */
    assert_int_equal(stats_of(context).graphs_built, built + 2);
    free(logits);
    qsa_context_destroy(context);
}

/* More shapes than are kept, coming back again and again. */
static void kept_graphs_give_the_bits_of_fresh_ones(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 9, 1, 2, 3, 9, 4, 5, 1, 6, 7, 8, 9, 2, 1, 20, 1, 9, 3, 19};
    const qsa_context_options options = model_options(1, TOKENS, 1);
    float *expected = model_run(model, &options, tokens, TOKENS);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    float *found = test_alloc((size_t)TOKENS * vocabulary, sizeof *found);
    uint32_t fed = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        model_feed_all(model, context, session, tokens + fed, lengths[i], lengths[i], found + (size_t)fed * vocabulary);
        fed += lengths[i];
    }
    test_same_floats("logits of kept graphs", expected, found, (size_t)fed * vocabulary);
    assert_true(stats_of(context).graphs_built < sizeof lengths / sizeof *lengths);
    free(expected);
    free(found);
    qsa_context_destroy(context);
}

/* Every batch has five tokens, of two sessions that share them out anew each time. */
static void one_graph_serves_any_mix_of_sessions(void **state)
{
    (void)state;
    static const uint32_t firsts[] = {1, 4, 2, 3, 1, 2};
    enum { BATCH = 5, BATCHES = sizeof firsts / sizeof *firsts };
    const qsa_context_options options = model_options(2, TOKENS, 1);
    float *expected = model_run(model, &options, tokens, TOKENS);
    qsa_context *context = model_context(model, &options);
    qsa_session *sessions[2] = {model_session(context), model_session(context)};
    float *found[2] = {test_alloc((size_t)TOKENS * vocabulary, sizeof(float)),
                       test_alloc((size_t)TOKENS * vocabulary, sizeof(float))};
    uint32_t fed[2] = {0, 0};
    uint64_t built = 0;
    for (int i = 0; i < BATCHES; i++) {
        qsa_batch_item items[2];
        for (int s = 0; s < 2; s++) {
            const uint32_t n = s == 0 ? firsts[i] : BATCH - firsts[i];
            items[s] = (qsa_batch_item){sessions[s], tokens + fed[s], n, n, found[s] + (size_t)fed[s] * vocabulary};
            fed[s] += n;
        }
        model_ok(qsa_batch_run(context, items, 2));
        built = i == 0 ? stats_of(context).graphs_built : built;
    }
    assert_int_equal(stats_of(context).graphs_built, built);
    for (int s = 0; s < 2; s++) {
        test_same_floats("logits of a mix", expected, found[s], (size_t)fed[s] * vocabulary);
        free(found[s]);
    }
    free(expected);
    qsa_context_destroy(context);
}

static void kept_graphs_are_few_and_counted(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, TOKENS, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    const uint64_t before = stats_of(context).compute_bytes;
    uint64_t most = 0;
    for (uint32_t n = 1; n <= 20; n++) {
        model_ok(qsa_session_feed(session, tokens, n, NULL, NULL, NULL));
        const uint64_t bytes = stats_of(context).compute_bytes;
        assert_true(n != 1 || bytes > before);
        assert_true(n <= 10 || bytes == most);
        most = bytes;
    }
    qsa_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_after_token_runs_one_graph),
        cmocka_unit_test(kept_graphs_give_the_bits_of_fresh_ones),
        cmocka_unit_test(one_graph_serves_any_mix_of_sessions),
        cmocka_unit_test(kept_graphs_are_few_and_counted),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
