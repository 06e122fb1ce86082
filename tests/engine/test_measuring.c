/* SPDX-License-Identifier: Apache-2.0 */
/* What measurements need of the engine: the profile by part, and sessions of any depth without a prompt. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "model_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* LAST_POSITION: of a sequence whose rotary frame is 0. */
enum { TOKENS = 70, DEPTH = 600, LAST_POSITION = 1 << 24 };

static qsa_model *model;
static uint32_t vocabulary;
static int32_t tokens[TOKENS];

static int open_model(void **state)
{
    (void)state;
    model = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_NATIVE);
    vocabulary = model_vocabulary(model);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(golden_bits64(3, (uint64_t)i) % vocabulary);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    qsa_model_close(model);
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- the profile ---- */

static uint64_t sum_of(const qsa_context_profile *profile)
{
    uint64_t sum = 0;
    for (int part = 0; part < QSA_PART_COUNT; part++)
        sum += profile->part_ns[part];
    return sum;
}

static void parts_add_up_to_the_time_of_the_batches(void **state)
{
    (void)state;
    qsa_context_options options = model_options(1, 32, 2);
    options.profile = true;
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    float *logits = test_alloc(vocabulary, sizeof *logits);
    qsa_context_profile profile;
    qsa_context_get_profile(context, &profile);
    assert_int_equal(sum_of(&profile), 0);
    const qsa_batch_item item = {session, tokens, 32, 1, logits};
    const uint64_t begin = now_ns();
    model_ok(qsa_batch_run(context, &item, 1));
    const uint64_t whole = now_ns() - begin;
    qsa_context_get_profile(context, &profile);
    assert_int_equal(profile.batches, 1);
    assert_int_equal(profile.tokens, 32);
    for (int part = 0; part < QSA_PART_COUNT; part++)
        if (profile.part_ns[part] == 0)
            fail_msg("no time for %s", qsa_model_part_name((qsa_model_part)part));
    assert_true(sum_of(&profile) <= whole);
    /* What lies outside the clock is two function calls; the margin is for a busy machine. */
    assert_true(sum_of(&profile) >= whole / 2);
    model_ok(qsa_session_feed(session, tokens + 32, TOKENS - 32, NULL, NULL, NULL));
    qsa_context_get_profile(context, &profile);
    assert_int_equal(profile.batches, 3);
    assert_int_equal(profile.tokens, TOKENS);
    free(logits);
    qsa_context_destroy(context);
}

static void a_refused_batch_is_not_counted(void **state)
{
    (void)state;
    qsa_context_options options = model_options(1, 32, 1);
    options.profile = true;
    qsa_context *context = model_context(model, &options);
    const int32_t stranger = -1;
    assert_int_equal(qsa_session_feed(model_session(context), &stranger, 1, NULL, NULL, NULL), QSA_E_ARGUMENT);
    qsa_context_profile profile;
    qsa_context_get_profile(context, &profile);
    assert_int_equal(profile.batches, 0);
    assert_int_equal(profile.tokens, 0);
    assert_int_equal(sum_of(&profile), profile.part_ns[QSA_PART_OTHER]);
    qsa_context_destroy(context);
}

static void the_profile_changes_no_bit(void **state)
{
    (void)state;
    qsa_context_options options = model_options(1, 16, 2);
    float *expected = model_run(model, &options, tokens, TOKENS);
    options.profile = true;
    float *found = model_run(model, &options, tokens, TOKENS);
    test_same_floats("logits with a profile", expected, found, (size_t)TOKENS * vocabulary);
    free(expected);
    free(found);
}

static void without_the_option_there_is_none(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, 16, 1);
    qsa_context *context = model_context(model, &options);
    model_ok(qsa_session_feed(model_session(context), tokens, TOKENS, NULL, NULL, NULL));
    qsa_context_profile profile;
    qsa_context_get_profile(context, &profile);
    assert_int_equal(profile.batches, 0);
    assert_int_equal(profile.tokens, 0);
    assert_int_equal(sum_of(&profile), 0);
    qsa_context_destroy(context);
}

static void every_part_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int part = 0; part < QSA_PART_COUNT; part++)
        for (int other = 0; other < part; other++)
            assert_string_not_equal(qsa_model_part_name((qsa_model_part)part),
                                    qsa_model_part_name((qsa_model_part)other));
    assert_string_equal(qsa_model_part_name(QSA_PART_COUNT), "?");
}

/* ---- what is not computed ---- */

/* After 64 tokens and the rest. last: logits of the last token only; otherwise of all. */
static qsa_context_stats stats_of_run(bool last, float *logits)
{
    const qsa_context_options options = model_options(1, 64, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    qsa_context_stats stats;
    if (last)
        model_ok(qsa_session_feed(session, tokens, TOKENS, logits, NULL, NULL));
    else
        model_feed_all(model, context, session, tokens, TOKENS, 64, logits);
    qsa_context_get_stats(context, &stats);
    qsa_context_destroy(context);
    return stats;
}

static void the_last_layer_answers_only_where_logits_are_wanted(void **state)
{
    (void)state;
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    float *expected = test_alloc((size_t)TOKENS * vocabulary, sizeof *expected);
    float *found = test_alloc(vocabulary, sizeof *found);
    const qsa_context_stats all = stats_of_run(false, expected), some = stats_of_run(true, found);
    test_same_floats("logits of the last token", expected + (size_t)(TOKENS - 1) * vocabulary, found, vocabulary);
    const uint64_t pairs = TOKENS * (TOKENS + 1) / 2, unasked = 64 * 65 / 2;
    assert_int_equal(all.visible_tokens, info.qsa.layers * pairs);
    assert_int_equal(some.visible_tokens, info.qsa.layers * pairs - unasked);
    assert_int_equal(some.counters.keys_pooled, all.counters.keys_pooled);
    /* How many tokens a query attends to depends on its position only: each layer has the same number. */
    uint64_t rows = 0;
    for (int64_t i = 0; i < 64; i++) {
        qsa_view view;
        assert_int_equal(qsa_run_view(0, i, info.qsa.ratio, info.qsa.budget, 0, &view), QSA_OK);
        rows += view.attended * info.qsa.kv_heads;
    }
    assert_int_equal(some.counters.k_rows_read, all.counters.k_rows_read - rows);
    free(expected);
    free(found);
}

/* The last few tokens of several, in one batch. */
static void some_logits_are_those_of_all(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, TOKENS, 1);
    float *expected = model_run(model, &options, tokens, TOKENS);
    for (uint32_t wanted = 1; wanted < TOKENS; wanted += 23) {
        qsa_context *context = model_context(model, &options);
        float *found = test_alloc((size_t)wanted * vocabulary, sizeof *found);
        const qsa_batch_item item = {model_session(context), tokens, TOKENS, wanted, found};
        model_ok(qsa_batch_run(context, &item, 1));
        test_same_floats("some logits", expected + (size_t)(TOKENS - wanted) * vocabulary, found,
                         (size_t)wanted * vocabulary);
        free(found);
        qsa_context_destroy(context);
    }
    free(expected);
}

/* ---- filled sessions ---- */

static qsa_session *filled(qsa_context *context, uint64_t seed)
{
    qsa_session *session = model_session(context);
    model_ok(qsa_session_fill(session, DEPTH, seed));
    return session;
}

static void a_filled_session_goes_on(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, 64, 2);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = filled(context, 1);
    assert_int_equal(qsa_session_tokens(session), DEPTH);
    for (int i = 0; i < DEPTH; i++)
        assert_true(qsa_session_list(session)[i] >= 0 && (uint32_t)qsa_session_list(session)[i] < vocabulary);
    qsa_model_info info;
    qsa_model_get_info(model, &info);
    qsa_context_stats before, after;
    qsa_context_get_stats(context, &before);
    assert_int_equal(before.counters.groups_scored, 0);
    assert_int_equal(before.counters.k_rows_read, 0);
    float *logits = test_alloc((size_t)TOKENS * vocabulary, sizeof *logits);
    model_feed_all(model, context, session, tokens, TOKENS, 64, logits);
    qsa_context_get_stats(context, &after);
    /* Every query of every layer had the filled groups to choose from. */
    assert_true(after.counters.groups_scored >= (uint64_t)info.qsa.layers * TOKENS * (DEPTH / info.qsa.ratio));
    assert_true(isfinite(logits[0]) && isfinite(logits[(size_t)TOKENS * vocabulary - 1]));
    free(logits);
    qsa_context_destroy(context);
}

/* Logits of the tokens after a filled session. */
static float *after_fill(uint64_t seed, uint32_t batch, uint32_t threads)
{
    const qsa_context_options options = model_options(1, 64, threads);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = filled(context, seed);
    float *logits = test_alloc((size_t)TOKENS * vocabulary, sizeof *logits);
    model_feed_all(model, context, session, tokens, TOKENS, batch, logits);
    qsa_context_destroy(context);
    return logits;
}

static void a_seed_decides_what_is_filled_in(void **state)
{
    (void)state;
    float *expected = after_fill(7, 64, 1), *again = after_fill(7, 9, 3), *other = after_fill(8, 64, 1);
    test_same_floats("logits after the same fill", expected, again, (size_t)TOKENS * vocabulary);
    assert_memory_not_equal(expected, other, (size_t)TOKENS * vocabulary * sizeof *other);
    free(expected);
    free(again);
    free(other);
}

static void a_session_returns_from_a_fill(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, TOKENS, 1);
    float *expected = model_run(model, &options, tokens, TOKENS);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    float *found = test_alloc(vocabulary, sizeof *found);
    model_ok(qsa_session_feed(session, tokens, TOKENS - 1, NULL, NULL, NULL));
    model_ok(qsa_session_mark(session));
    model_ok(qsa_session_fill(session, DEPTH, 1));
    model_ok(qsa_session_return(session));
    model_ok(qsa_session_feed(session, tokens + TOKENS - 1, 1, found, NULL, NULL));
    test_same_floats("logits after going back", expected + (size_t)(TOKENS - 1) * vocabulary, found, vocabulary);
    free(expected);
    free(found);
    qsa_context_destroy(context);
}

static void what_cannot_be_filled_is_refused(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(2, 64, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    assert_int_equal(qsa_session_fill(NULL, 1, 0), QSA_E_ARGUMENT);
    assert_int_equal(qsa_session_fill(session, 0, 0), QSA_E_ARGUMENT);
    assert_int_equal(qsa_session_fill(session, options.context + 1, 0), QSA_E_FULL);
    assert_int_equal(qsa_session_fill(session, UINT64_MAX, 0), QSA_E_FULL);
    assert_int_equal(qsa_session_tokens(session), 0);
    model_ok(qsa_session_fill(session, options.context - 10, 0));
    assert_int_equal(qsa_session_fill(model_session(context), 11, 0), QSA_E_FULL);
    model_ok(qsa_session_fill(session, 10, 0));
    assert_int_equal(qsa_session_tokens(session), options.context);
    qsa_context_destroy(context);
}

/* The second of several steps passes the last position: the first is taken back. */
static void a_fill_that_fails_half_way_leaves_nothing(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, 64, 1);
    qsa_context *context = model_context(model, &options);
    qsa_session *session = model_session(context);
    model_ok(qsa_session_set_anchor(session, LAST_POSITION - 100));
    assert_int_equal(qsa_session_fill(session, 200, 0), QSA_E_LIMIT);
    assert_int_equal(qsa_session_tokens(session), 0);
    model_ok(qsa_session_set_anchor(session, LAST_POSITION - 50));
    float *logits = test_alloc((size_t)TOKENS * vocabulary, sizeof *logits),
          *found = test_alloc(vocabulary, sizeof *found);
    model_feed_all(model, context, session, tokens, 20, 64, logits);
    qsa_session_close(session);
    session = model_session(context);
    model_ok(qsa_session_set_anchor(session, LAST_POSITION - 50));
    model_ok(qsa_session_feed(session, tokens, 19, NULL, NULL, NULL));
    assert_int_equal(qsa_session_fill(session, 200, 0), QSA_E_LIMIT);
    assert_int_equal(qsa_session_tokens(session), 19);
    model_ok(qsa_session_feed(session, tokens + 19, 1, found, NULL, NULL));
    test_same_floats("logits after a refused fill", logits + (size_t)19 * vocabulary, found, vocabulary);
    free(logits);
    free(found);
    qsa_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up_to_the_time_of_the_batches),
        cmocka_unit_test(a_refused_batch_is_not_counted),
        cmocka_unit_test(the_profile_changes_no_bit),
        cmocka_unit_test(without_the_option_there_is_none),
        cmocka_unit_test(every_part_has_a_name_of_its_own),
        cmocka_unit_test(the_last_layer_answers_only_where_logits_are_wanted),
        cmocka_unit_test(some_logits_are_those_of_all),
        cmocka_unit_test(a_filled_session_goes_on),
        cmocka_unit_test(a_seed_decides_what_is_filled_in),
        cmocka_unit_test(a_session_returns_from_a_fill),
        cmocka_unit_test(what_cannot_be_filled_is_refused),
        cmocka_unit_test(a_fill_that_fails_half_way_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
