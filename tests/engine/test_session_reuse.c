/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix reuse: a session told which list is wanted gives the bits of a fresh one, whatever it or its neighbours held
 * before, and computes no more than it must. */
#include "model_fixture.h"

#include "make/quoter.h"
#include "model/state.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, LONG = 2600 };

static qsa_model *models[4]; /* tiny f32, bf16, q8_0; a small quoter */
static int32_t text[MOST];

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static int open_models(void **state)
{
    quoter_options small;
    quoter_options_small(&small);
    if (model_temporary_make(state) != 0 || quoter_write(model_temporary(), &small) != QSA_OK ||
        qsa_model_open(model_temporary(), NULL, &models[3]) != QSA_OK)
        return -1;
    models[0] = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_F32);
    models[1] = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_NATIVE);
    models[2] = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    for (int i = 0; i < MOST; i++)
        text[i] = (i * 37 + i / 9) % 250;
    return 0;
}

static int close_models(void **state)
{
    for (int i = 0; i < 4; i++)
        qsa_model_close(models[i]);
    return model_temporary_remove(state);
}

static qsa_context *context_of(const qsa_model *model, uint32_t sessions, uint32_t chunk)
{
    qsa_context_options options = model_options(sessions, chunk, 1);
    options.context = MOST * sessions;
    options.kv = QSA_KV_BF16;
    options.index = QSA_PROFILE_BF16;
    return model_context(model, &options);
}

/* The wanted list, and the bits of a fresh session of the same list. */
static qsa_reuse want(qsa_session *s, qsa_session *fresh, const int32_t *tokens, size_t n)
{
    const uint32_t vocabulary = model_vocabulary(s->context->model);
    float *found = test_alloc(vocabulary, sizeof *found), *expected = test_alloc(vocabulary, sizeof *expected);
    qsa_reuse reuse;
    model_ok(qsa_session_want(s, tokens, n, found, &reuse, NULL, NULL));
    assert_int_equal(qsa_session_tokens(s), n);
    assert_memory_equal(qsa_session_list(s), tokens, n * sizeof *tokens);
    assert_int_equal(reuse.reused + reuse.computed, n);
    assert_true(reuse.reused <= reuse.common);
    model_ok(qsa_session_want(fresh, NULL, 0, NULL, NULL, NULL, NULL));
    model_ok(qsa_session_feed(fresh, tokens, n, expected, NULL, NULL));
    test_same_floats("logits", expected, found, vocabulary);
    uint64_t digests[2];
    assert_int_equal(qsa_seq_digest(s->context->cache, s->seq, &digests[0]), QSA_OK);
    assert_int_equal(qsa_seq_digest(fresh->context->cache, fresh->seq, &digests[1]), QSA_OK);
    assert_int_equal(digests[0], digests[1]);
    assert_memory_equal(s->now->floats, fresh->now->floats, state_floats(&s->context->model->shape) * sizeof(float));
    free(found);
    free(expected);
    return reuse;
}

/* ---- how much is computed ---- */

static void same_prompt_twice_computes_nothing(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 1, 64), *other = context_of(models[2], 1, 100);
    qsa_session *s = model_session(context), *fresh = model_session(other);
    assert_int_equal(want(s, fresh, text, 495).computed, 495);
    assert_int_equal(want(s, fresh, text, 495).reused, 495);
    model_ok(qsa_session_feed(s, text, 1, NULL, NULL, NULL)); /* an answer, token by token */
    model_ok(qsa_session_feed(s, text, 1, NULL, NULL, NULL));
    const qsa_reuse again = want(s, fresh, text, 495);
    assert_int_equal(again.common, 495);
    assert_int_equal(again.computed, 0);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void next_turn_computes_what_is_new(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 1, 512), *other = context_of(models[2], 1, 300);
    qsa_session *s = model_session(context), *fresh = model_session(other);
    (void)want(s, fresh, text, 2500);
    const qsa_reuse turn = want(s, fresh, text, LONG);
    assert_int_equal(turn.reused, 2500);
    assert_int_equal(turn.computed, 100);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void changed_end_computes_from_a_checkpoint_before_it(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 1, 64), *other = context_of(models[2], 1, 512);
    qsa_session *s = model_session(context), *fresh = model_session(other);
    int32_t list[LONG];
    memcpy(list, text, sizeof list);
    (void)want(s, fresh, list, LONG);
    for (size_t at = LONG - 1; at > LONG - 400; at -= 131) { /* other residues of a group */
        list[at] = (list[at] + 1) % 250;
        const qsa_reuse reuse = want(s, fresh, list, LONG);
        assert_int_equal(reuse.common, at);
        assert_true(reuse.common - reuse.reused <= CHECKPOINT_SPACING + 64);
        assert_false(reuse.forked);
    }
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

/* The state at the end of the list is there, its logits are not. */
static void logits_that_were_not_wanted_before_are_computed(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[1], 1, 64), *other = context_of(models[1], 1, 64);
    qsa_session *s = model_session(context), *fresh = model_session(other);
    qsa_reuse reuse;
    model_ok(qsa_session_want(s, text, 100, NULL, &reuse, NULL, NULL));
    model_ok(qsa_session_want(s, text, 150, NULL, &reuse, NULL, NULL));
    assert_int_equal(want(s, fresh, text, 150).reused, 100);
    assert_int_equal(want(s, fresh, text, 150).reused, 150);
    model_ok(qsa_session_want(s, text, 100, NULL, &reuse, NULL, NULL));
    assert_int_equal(reuse.computed, 0);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

/* ---- other sessions ---- */

static void prefix_of_another_session_is_forked_while_it_is_in_use(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 3, 64), *other = context_of(models[2], 1, 64);
    qsa_session *first = model_session(context), *second = model_session(context), *fresh = model_session(other);
    (void)want(first, fresh, text, 1001);
    qsa_context_stats before, after;
    qsa_context_get_stats(context, &before);
    int32_t list[1100];
    memcpy(list, text, sizeof list);
    list[1001] = 7; /* the same beginning, another end */
    const qsa_reuse reuse = want(second, fresh, list, 1100);
    assert_true(reuse.forked);
    assert_int_equal(reuse.reused, 1001);
    qsa_context_get_stats(context, &after);
    assert_int_equal(after.counters.tokens - before.counters.tokens, 99);
    assert_true(want(first, fresh, text, 1050).reused == 1001); /* as if it had been alone */
    qsa_session_close(first);
    assert_int_equal(want(second, fresh, list, 1100).computed, 0); /* its pages and checkpoints are its own */
    qsa_session *third = model_session(context);
    assert_true(want(third, fresh, list, 990).forked);
    assert_int_equal(qsa_cache_check(context->cache), QSA_OK);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

/* Both write into the page that they share, in one batch. */
static void sharers_write_in_one_batch(void **state)
{
    (void)state;
    qsa_context_options options = model_options(2, 32, 1);
    options.context = 2 * 101; /* full to the last token */
    qsa_context *context = model_context(models[2], &options);
    qsa_session *sessions[] = {model_session(context), model_session(context)};
    const uint32_t vocabulary = model_vocabulary(models[2]);
    float *logits = test_alloc(2 * (size_t)vocabulary, sizeof *logits);
    model_ok(qsa_session_want(sessions[0], text, 97, NULL, NULL, NULL, NULL));
    model_ok(qsa_session_want(sessions[1], text, 97, NULL, NULL, NULL, NULL));
    const qsa_batch_item items[] = {{sessions[0], text + 97, 4, 1, logits},
                                    {sessions[1], text + 297, 4, 1, logits + vocabulary}};
    model_ok(qsa_batch_run(context, items, 2));
    const qsa_batch_item one = {sessions[0], text, 1, 0, NULL};
    assert_int_equal(qsa_batch_run(context, &one, 1), QSA_E_FULL);
    float *again = test_alloc(vocabulary, sizeof *again); /* each again, alone and from the beginning */
    for (int i = 0; i < 2; i++) {
        model_ok(qsa_session_want(sessions[i], NULL, 0, NULL, NULL, NULL, NULL));
        model_ok(qsa_session_feed(sessions[i], text, 97, NULL, NULL, NULL));
        model_ok(qsa_session_feed(sessions[i], items[i].tokens, 4, again, NULL, NULL));
        test_same_floats("logits", again, items[i].out_logits, vocabulary);
    }
    free(again);
    free(logits);
    qsa_context_destroy(context);
}

static void sessions_with_another_anchor_share_nothing(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 2, 64);
    qsa_session *first = model_session(context), *second = model_session(context);
    qsa_reuse reuse;
    model_ok(qsa_session_set_anchor(second, 3));
    model_ok(qsa_session_want(first, text, 200, NULL, NULL, NULL, NULL));
    model_ok(qsa_session_want(second, text, 200, NULL, &reuse, NULL, NULL));
    assert_false(reuse.forked);
    assert_int_equal(reuse.computed, 200);
    qsa_context_destroy(context);
}

/* ---- any life ---- */

/* Lists that grow, lose their end, change in the middle or begin anew, in three sessions of one context. */
static void walk(const qsa_model *model, uint32_t checkpoints, uint64_t seed, int steps)
{
    enum { SESSIONS = 3, LENGTH = 350 };
    qsa_context *other = context_of(model, 1, 97);
    qsa_context_options options = model_options(SESSIONS, 48, 1);
    options.context = SESSIONS * LENGTH;
    options.kv = QSA_KV_BF16;
    options.index = QSA_PROFILE_BF16;
    options.checkpoints = checkpoints;
    qsa_context *context = model_context(model, &options);
    qsa_session *fresh = model_session(other), *sessions[SESSIONS];
    static int32_t list[LENGTH];
    size_t n = 0;
    random_state = seed;
    for (int i = 0; i < SESSIONS; i++)
        sessions[i] = model_session(context);
    for (int step = 0; step < steps; step++) {
        qsa_session *s = sessions[random_below(SESSIONS)];
        n = random_below(3) == 0 ? random_below((uint32_t)n + 1) : n;
        n = random_below(20) == 0 ? 0 : n;
        for (uint32_t more = 1 + random_below(random_below(2) ? 5 : 100); more > 0 && n < LENGTH; more--)
            list[n++] = (int32_t)random_below(8) + 97;
        (void)want(s, fresh, list, n);
        assert_int_equal(qsa_cache_check(context->cache), QSA_OK);
        assert_true(s->checkpoints.n <= checkpoints + 1);
        if (random_below(4) == 0)
            model_ok(qsa_session_mark(s));
        if (s->checkpoints.mark != NULL && random_below(4) == 0)
            model_ok(qsa_session_return(s));
        if (random_below(10) == 0) {
            const uint32_t i = random_below(SESSIONS);
            qsa_session_close(sessions[i]);
            sessions[i] = model_session(context);
        }
    }
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void any_list_after_any_other_equals_a_fresh_session(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        walk(models[i], 8, 11 + (uint64_t)i, 40);
        walk(models[i], 1, 21 + (uint64_t)i, 10);
        walk(models[i], 0, 31 + (uint64_t)i, 6);
    }
}

/* ---- refusals, memory ---- */

static void lists_that_are_refused_change_nothing(void **state)
{
    (void)state;
    qsa_context_options options = model_options(2, 16, 1);
    options.context = 300;
    qsa_context *context = model_context(models[2], &options);
    qsa_session *s = model_session(context), *other = model_session(context);
    float logits[1024];
    model_ok(qsa_session_want(s, text, 100, logits, NULL, NULL, NULL));
    model_ok(qsa_session_want(other, text + 3, 50, NULL, NULL, NULL, NULL));
    const uint32_t checkpoints = s->checkpoints.n;
    int32_t bad[60];
    memcpy(bad, text, sizeof bad);
    bad[59] = -1;
    assert_int_equal(qsa_session_want(s, bad, 60, logits, NULL, NULL, NULL), QSA_E_ARGUMENT);
    assert_non_null(strstr(qsa_engine_error(), "token 59 is -1"));
    assert_int_equal(qsa_session_want(s, text, 251, logits, NULL, NULL, NULL), QSA_E_FULL);
    assert_int_equal(qsa_session_want(s, NULL, 0, logits, NULL, NULL, NULL), QSA_E_ARGUMENT);
    assert_int_equal(qsa_session_want(s, NULL, 1, NULL, NULL, NULL, NULL), QSA_E_ARGUMENT);
    assert_int_equal(qsa_session_tokens(s), 100);
    assert_int_equal(s->checkpoints.n, checkpoints);
    qsa_reuse reuse;
    model_ok(qsa_session_want(s, text, 250, logits, &reuse, NULL, NULL));
    assert_int_equal(reuse.computed, 150);
    options.checkpoints = MAX_CHECKPOINTS + 1;
    qsa_context *refused = NULL;
    assert_int_equal(qsa_context_create(models[2], &options, &refused), QSA_E_LIMIT);
    assert_non_null(strstr(qsa_engine_error(), "checkpoints is 33"));
    qsa_context_destroy(context);
}

static uint64_t state_bytes(const qsa_context *context)
{
    qsa_context_stats stats;
    qsa_context_get_stats(context, &stats);
    return stats.state_bytes;
}

static void memory_is_bounded_and_accounted(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 2, 16);
    qsa_session *s = model_session(context), *other = model_session(context);
    for (int i = 1; i <= 20; i++)
        model_ok(qsa_session_want(s, text, (size_t)i * 150, NULL, NULL, NULL, NULL));
    model_ok(qsa_session_mark(s));
    assert_true(s->checkpoints.n <= DEFAULT_CHECKPOINTS + 1);
    const uint64_t ids = s->ids_capacity * sizeof(int32_t);
    assert_int_equal(state_bytes(context), (4 + s->checkpoints.n) * state_size_bytes(context) + ids);
    model_ok(qsa_session_want(other, text, 3000, NULL, NULL, NULL, NULL)); /* shares the checkpoints */
    assert_int_equal(state_bytes(context),
                     (4 + s->checkpoints.n) * state_size_bytes(context) + ids + other->ids_capacity * sizeof(int32_t) +
                         (other->checkpoints.at[other->checkpoints.n - 1]->uses == 1 ? state_size_bytes(context) : 0));
    qsa_session_close(s);
    qsa_session_close(other);
    assert_int_equal(state_bytes(context), 0);
    qsa_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_prompt_twice_computes_nothing),
        cmocka_unit_test(next_turn_computes_what_is_new),
        cmocka_unit_test(changed_end_computes_from_a_checkpoint_before_it),
        cmocka_unit_test(logits_that_were_not_wanted_before_are_computed),
        cmocka_unit_test(prefix_of_another_session_is_forked_while_it_is_in_use),
        cmocka_unit_test(sharers_write_in_one_batch),
        cmocka_unit_test(sessions_with_another_anchor_share_nothing),
        cmocka_unit_test(any_list_after_any_other_equals_a_fresh_session),
        cmocka_unit_test(lists_that_are_refused_change_nothing),
        cmocka_unit_test(memory_is_bounded_and_accounted),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
