/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: refusals and failures that leave everything as it was, marks, anchors, a full context, what they hold. */
#include "model_fixture.h"

#include "session/session.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

enum { TOKENS = 60 };

static qsa_model *model;
static uint32_t vocabulary;
static int32_t tokens[TOKENS];

static int open_model(void **state)
{
    if (model_temporary_make(state) != 0)
        return -1;
    model = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    vocabulary = model_vocabulary(model);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (i * 37 + i / 9) % 550;
    return 0;
}

static int close_model(void **state)
{
    qsa_model_close(model);
    return model_temporary_remove(state);
}

static qsa_context *small_context(uint32_t sessions, uint32_t chunk)
{
    const qsa_context_options options = model_options(sessions, chunk, 1);
    return model_context(model, &options);
}

static float *feed(qsa_session *session, const int32_t *ids, size_t n)
{
    float *logits = test_alloc(vocabulary, sizeof *logits);
    model_ok(qsa_session_feed(session, ids, n, logits, NULL, NULL));
    return logits;
}

/* What 20 tokens more give, in place of comparing every byte of a session; then back. */
static float *answer(qsa_session *session)
{
    model_ok(qsa_session_mark(session));
    float *logits = feed(session, tokens + 20, 20);
    model_ok(qsa_session_return(session));
    return logits;
}

static void assert_refused(qsa_status expected, qsa_status found, const char *word)
{
    assert_int_equal(found, expected);
    assert_non_null(strstr(qsa_engine_error(), word));
    assert_null(strchr(qsa_engine_error(), '\n'));
}

/* ---- memory ---- */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static int calls_until_failure; /* 0: none fails */

void *__wrap_calloc(size_t count, size_t size)
{
    return calls_until_failure > 0 && --calls_until_failure == 0 ? NULL : __real_calloc(count, size);
}

static void failed_allocations_leave_nothing(void **state)
{
    (void)state;
    qsa_context *context = small_context(1, 16);
    qsa_session *s = NULL;
    qsa_context_stats stats;
    for (int call = 1; s == NULL; call++) {
        calls_until_failure = call;
        const qsa_status status = qsa_session_open(context, &s);
        calls_until_failure = 0;
        assert_int_equal(status, s == NULL ? QSA_E_MEMORY : QSA_OK);
        qsa_context_get_stats(context, &stats);
        assert_true(s != NULL || stats.state_bytes == 0);
        assert_true(call < 10);
    }
    free(feed(s, tokens, 1)); /* one alone makes no checkpoint by itself */
    for (int call = 1;; call++) {
        calls_until_failure = call;
        const qsa_status status = qsa_session_mark(s);
        calls_until_failure = 0;
        if (status == QSA_OK)
            break;
        assert_int_equal(status, QSA_E_MEMORY);
        assert_int_equal(qsa_session_return(s), QSA_E_ORDER); /* there is no mark */
    }
    qsa_context_destroy(context);
}

/* ---- batches ---- */

static void bad_batches_are_refused_and_change_nothing(void **state)
{
    (void)state;
    qsa_context *context = small_context(2, 16), *foreign = small_context(1, 16);
    qsa_session *s = model_session(context), *stranger = model_session(foreign);
    free(feed(s, tokens, 10));
    float *before = answer(s), out[4];
    const int32_t negative = -1, beyond = (int32_t)vocabulary;
    const qsa_batch_item none = {NULL, tokens, 1, 0, NULL}, other = {stranger, tokens, 1, 0, NULL};
    const qsa_batch_item empty = {s, tokens, 0, 0, NULL}, greedy = {s, tokens, 2, 3, out};
    const qsa_batch_item nowhere = {s, tokens, 2, 1, NULL}, low = {s, &negative, 1, 0, NULL};
    const qsa_batch_item high = {s, &beyond, 1, 0, NULL}, wide = {s, tokens, 17, 0, NULL};
    const qsa_batch_item twice[] = {{s, tokens, 1, 0, NULL}, {s, tokens, 1, 0, NULL}};
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, NULL, 1), "items");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &empty, 0), "items");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &none, 1), "session");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &other, 1), "session");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &empty, 1), "no tokens");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &greedy, 1), "logits of 3");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &nowhere, 1), "nowhere");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &low, 1), "-1");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, &high, 1), "vocabulary");
    assert_refused(QSA_E_ARGUMENT, qsa_batch_run(context, twice, 2), "item 1");
    assert_refused(QSA_E_LIMIT, qsa_batch_run(context, &wide, 1), "17");
    assert_int_equal(qsa_session_tokens(s), 10);
    float *after = answer(s);
    test_same_floats("logits", before, after, vocabulary);
    free(before);
    free(after);
    qsa_context_destroy(context);
    qsa_context_destroy(foreign);
}

static void full_context_is_said_and_changes_nothing(void **state)
{
    (void)state;
    qsa_context_options options = model_options(2, 16, 1);
    options.context = 45;
    qsa_context *context = model_context(model, &options);
    qsa_session *s = model_session(context), *other = model_session(context);
    free(feed(s, tokens, 20));
    float *before = answer(s);
    free(feed(other, tokens, 5));
    free(feed(s, tokens + 20, 19)); /* 44 of 45 */
    const qsa_batch_item two = {s, tokens, 2, 0, NULL};
    assert_refused(QSA_E_FULL, qsa_batch_run(context, &two, 1), "room for 45");
    assert_int_equal(qsa_session_tokens(s), 39);
    free(feed(s, tokens, 1));
    assert_int_equal(qsa_session_feed(s, tokens, 1, NULL, NULL, NULL), QSA_E_FULL);
    qsa_session_close(other); /* makes room */
    model_ok(qsa_session_return(s));
    float *after = feed(s, tokens + 20, 20);
    test_same_floats("logits", before, after, vocabulary);
    free(before);
    free(after);
    qsa_context_destroy(context);
}

/* One row of the embedding is not a number: the first QSA layer refuses it, and nothing has happened. */
static void failure_inside_the_pass_changes_nothing(void **state)
{
    (void)state;
    enum { BAD = 200, EMBEDDING = 64 };
    model_bytes bytes = model_bytes_read("tiny-bf16.gguf");
    qsa_model *good = model_bytes_open(&bytes);
    const uint8_t *row = (const uint8_t *)good->weights.embedding.data + (size_t)BAD * EMBEDDING * 2;
    size_t at = 0; /* the row's place in the file, by its bytes */
    while (memcmp(bytes.data + at, row, EMBEDDING * 2) != 0)
        at++;
    qsa_model_close(good);
    memset(bytes.data + at, 0xff, EMBEDDING * 2);
    qsa_model *bad = model_bytes_open(&bytes);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        const qsa_context_options options = model_options(2, 16, threads);
        qsa_context *context = model_context(bad, &options);
        qsa_session *s = model_session(context), *other = model_session(context);
        free(feed(s, tokens, 10));
        uint64_t digest = 0, digest_after = 0;
        assert_int_equal(qsa_seq_digest(context->cache, s->seq, &digest), QSA_OK);
        float *before = answer(s);
        const int32_t poison[] = {1, 2, BAD, 3};
        const qsa_batch_item items[] = {{other, tokens, 3, 0, NULL}, {s, poison, 4, 0, NULL}};
        assert_int_equal(qsa_batch_run(context, items, 2), QSA_E_NONFINITE);
        assert_non_null(strstr(qsa_engine_error(), "layer 0"));
        assert_non_null(strstr(qsa_engine_error(), "entry 1"));
        assert_non_null(strstr(qsa_engine_error(), "token 2"));
        assert_int_equal(qsa_session_tokens(s), 10);
        assert_int_equal(qsa_session_tokens(other), 0);
        assert_int_equal(qsa_seq_digest(context->cache, s->seq, &digest_after), QSA_OK);
        assert_int_equal(digest, digest_after);
        float *after = answer(s);
        test_same_floats("logits", before, after, vocabulary);
        free(before);
        free(after);
        model_ok(qsa_session_set_anchor(other, 7)); /* was never fed */
        qsa_context_destroy(context);
    }
    qsa_model_close(bad);
    free(bytes.data);
}

/* ---- marks ---- */

static void return_gives_the_state_of_the_mark(void **state)
{
    (void)state;
    qsa_context *context = small_context(1, 7);
    qsa_session *s = model_session(context);
    assert_refused(QSA_E_ORDER, qsa_session_return(s), "mark");
    model_ok(qsa_session_mark(s)); /* of an empty session */
    free(feed(s, tokens, 33));
    model_ok(qsa_session_return(s));
    assert_int_equal(qsa_session_tokens(s), 0);
    free(feed(s, tokens, 22)); /* inside a group */
    float *once = answer(s);
    float *other = feed(s, tokens + 3, 30);
    assert_int_equal(qsa_session_tokens(s), 52);
    model_ok(qsa_session_return(s));
    model_ok(qsa_session_return(s)); /* a mark stays */
    assert_int_equal(qsa_session_tokens(s), 22);
    float *again = feed(s, tokens + 20, 20);
    test_same_floats("logits", once, again, vocabulary);
    assert_memory_not_equal(once, other, vocabulary * sizeof *once);
    free(once);
    free(other);
    free(again);
    qsa_context_destroy(context);
}

static void marked_session_equals_one_that_never_left(void **state)
{
    (void)state;
    qsa_context *context = small_context(2, 16);
    qsa_session *straight = model_session(context), *wandering = model_session(context);
    free(feed(straight, tokens, 41));
    free(feed(wandering, tokens, 41));
    model_ok(qsa_session_mark(wandering));
    free(feed(wandering, tokens + 9, 17));
    model_ok(qsa_session_return(wandering));
    float *expected = feed(straight, tokens + 41, 19), *found = feed(wandering, tokens + 41, 19);
    test_same_floats("logits", expected, found, vocabulary);
    uint64_t digests[2];
    assert_int_equal(qsa_seq_digest(context->cache, straight->seq, &digests[0]), QSA_OK);
    assert_int_equal(qsa_seq_digest(context->cache, wandering->seq, &digests[1]), QSA_OK);
    assert_int_equal(digests[0], digests[1]);
    free(expected);
    free(found);
    qsa_context_destroy(context);
}

/* ---- the rest of a session's life ---- */

static void anchor_is_decided_by_the_first_token(void **state)
{
    (void)state;
    qsa_context *context = small_context(1, 16);
    qsa_session *s = model_session(context);
    assert_int_equal(qsa_session_set_anchor(s, -1), QSA_E_LIMIT);
    assert_int_equal(qsa_session_set_anchor(s, QSA_MAX_POSITION), QSA_E_LIMIT);
    model_ok(qsa_session_set_anchor(s, 1003));
    model_ok(qsa_session_mark(s));
    free(feed(s, tokens, 5));
    assert_refused(QSA_E_ORDER, qsa_session_set_anchor(s, 4), "1003");
    model_ok(qsa_session_return(s));
    assert_int_equal(qsa_session_set_anchor(s, 4), QSA_E_ORDER);
    free(feed(s, tokens, 5));
    qsa_seq_info info;
    assert_int_equal(qsa_seq_query(context->cache, s->seq, &info), QSA_OK);
    assert_int_equal(info.anchor, 1003);
    assert_int_equal(info.frontier, 1008);
    qsa_context_destroy(context);
}

static void sessions_are_counted_and_their_memory_too(void **state)
{
    (void)state;
    qsa_context *context = small_context(2, 16);
    qsa_context_stats empty, full;
    qsa_context_get_stats(context, &empty);
    assert_int_equal(empty.state_bytes, 0);
    qsa_session *a = model_session(context), *b = model_session(context), *c = NULL;
    assert_int_equal(qsa_session_open(context, &c), QSA_E_FULL);
    assert_null(c);
    model_ok(qsa_session_mark(a));
    qsa_context_get_stats(context, &full);
    assert_int_equal(full.state_bytes % 5, 0); /* two each and one mark */
    qsa_session_close(b);
    model_ok(qsa_session_open(context, &c));
    free(feed(c, tokens, 8));
    qsa_session_close(a);
    qsa_session_close(c);
    qsa_context_get_stats(context, &empty);
    assert_int_equal(empty.state_bytes, 0);
    assert_int_equal(empty.counters.tokens, 8);
    qsa_context_destroy(context);
    qsa_context_destroy(NULL);
    qsa_session_close(NULL);
}

static bool count_progress(void *user, size_t fed)
{
    size_t *calls = user;
    calls[0]++;
    calls[1] = fed;
    return true;
}

static void feeding_goes_in_chunks_and_says_so(void **state)
{
    (void)state;
    qsa_context *context = small_context(1, 16);
    qsa_session *s = model_session(context);
    size_t calls[2] = {0};
    float logits[1024];
    model_ok(qsa_session_feed(s, tokens, 50, NULL, count_progress, calls));
    assert_int_equal(calls[0], 4);
    assert_int_equal(calls[1], 50);
    model_ok(qsa_session_feed(s, NULL, 0, NULL, NULL, NULL));
    assert_int_equal(qsa_session_feed(s, NULL, 0, logits, NULL, NULL), QSA_E_ARGUMENT);
    assert_int_equal(qsa_session_tokens(s), 50);
    qsa_context_destroy(context);
}

static bool stop_at(void *user, size_t fed)
{
    const size_t *last = user;
    return fed < *last;
}

/* A session that was stopped after 32 of 50 tokens is one that was fed 32, and takes the rest. */
static void stopped_feeding_keeps_the_chunks_that_were_done(void **state)
{
    (void)state;
    size_t last = 32;
    qsa_context *context = small_context(2, 16);
    qsa_session *s = model_session(context), *other = model_session(context);
    float *found = test_alloc(vocabulary, sizeof *found);
    found[0] = -1;
    assert_refused(QSA_E_CANCELLED, qsa_session_feed(s, tokens, 50, found, stop_at, &last), "after 32 of 50");
    assert_true(found[0] == -1);
    assert_int_equal(qsa_session_tokens(s), 32);
    free(feed(other, tokens, 32));
    assert_int_equal(s->checkpoints.n, other->checkpoints.n);
    uint64_t digests[2];
    assert_int_equal(qsa_seq_digest(context->cache, s->seq, &digests[0]), QSA_OK);
    assert_int_equal(qsa_seq_digest(context->cache, other->seq, &digests[1]), QSA_OK);
    assert_int_equal(digests[0], digests[1]);
    float *expected = feed(other, tokens + 32, 18);
    last = 18; /* the answer after the last chunk does not matter */
    model_ok(qsa_session_feed(s, tokens + 32, 18, found, stop_at, &last));
    test_same_floats("logits", expected, found, vocabulary);
    free(expected);
    free(found);
    qsa_context_destroy(context);
}

static void stopped_wanting_keeps_the_beginning_of_the_list(void **state)
{
    (void)state;
    size_t last = 42;
    qsa_context *context = small_context(1, 16);
    qsa_session *s = model_session(context);
    free(feed(s, tokens, 10));
    qsa_reuse reuse = {.common = 77};
    assert_refused(QSA_E_CANCELLED, qsa_session_want(s, tokens, 50, NULL, &reuse, stop_at, &last), "stopped");
    assert_int_equal(qsa_session_tokens(s), 42);
    assert_memory_equal(qsa_session_list(s), tokens, 42 * sizeof *tokens);
    assert_int_equal(reuse.common, 77);
    last = SIZE_MAX;
    model_ok(qsa_session_want(s, tokens, 50, NULL, &reuse, stop_at, &last));
    assert_int_equal(reuse.reused, 42);
    qsa_context_destroy(context);
}

/* ---- callbacks ---- */

/* A host whose callbacks try everything on the context that calls them. */
typedef struct intruder {
    qsa_context *context;
    qsa_session *session;
    int tries;
} intruder;

static void intrude(intruder *host)
{
    qsa_session *s = host->session, *opened = NULL;
    const qsa_batch_item item = {s, tokens, 1, 0, NULL};
    const uint64_t n = qsa_session_tokens(s);
    qsa_context_stats stats;
    host->tries++;
    assert_refused(QSA_E_BUSY, qsa_session_open(host->context, &opened), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_want(s, NULL, 0, NULL, NULL, NULL, NULL), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_feed(s, tokens, 1, NULL, NULL, NULL), "callback");
    assert_refused(QSA_E_BUSY, qsa_batch_run(host->context, &item, 1), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_mark(s), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_return(s), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_set_anchor(s, 1), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_fill(s, 1, 1), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_save(s, NULL, "/tmp/qsa-busy-test"), "callback");
    assert_refused(QSA_E_BUSY, qsa_session_load(host->context, "/tmp/qsa-busy-test", NULL, &opened), "callback");
    qsa_session_close(s);
    qsa_context_destroy(host->context);
    qsa_context_get_stats(host->context, &stats);
    assert_int_equal(qsa_session_tokens(s), n);
    assert_null(opened);
}

static bool intruding_progress(void *user, size_t fed)
{
    (void)fed;
    intrude(user);
    return true;
}

static void intruding_tap(void *user, uint32_t layer, uint32_t n, const qsa_tensors *tensors, const qsa_output *output,
                          const qsa_step *step)
{
    (void)layer, (void)n, (void)tensors, (void)output, (void)step;
    intrude(user);
    qsa_context_set_tap(((intruder *)user)->context, NULL); /* legal: not called for the layers that follow */
}

static void everything_is_busy_inside_a_callback(void **state)
{
    (void)state;
    qsa_context *context = small_context(2, 16);
    qsa_session *s = model_session(context), *other = model_session(context);
    intruder host = {context, s, 0};
    const qsa_tap tap = {intruding_tap, &host};
    float *found = test_alloc(vocabulary, sizeof *found), *expected = feed(other, tokens, 50);
    qsa_context_set_tap(context, &tap);
    model_ok(qsa_session_feed(s, tokens, 50, found, intruding_progress, &host));
    assert_int_equal(host.tries, 1 + 4);
    test_same_floats("logits", expected, found, vocabulary);
    model_ok(qsa_session_want(s, tokens, 20, NULL, NULL, intruding_progress, &host));
    assert_int_equal(qsa_session_tokens(s), 20);
    assert_true(host.tries > 5);
    free(expected);
    free(found);
    qsa_session_close(s);
    qsa_context_destroy(context);
}

/* ---- options ---- */

static void structs_without_init_are_refused(void **state)
{
    (void)state;
    qsa_context *context = NULL;
    qsa_model *other = NULL;
    qsa_context_options o = model_options(1, 16, 1);
    o.size_bytes--;
    assert_refused(QSA_E_ARGUMENT, qsa_context_create(model, &o, &context), "call qsa_context_options_init first");
    assert_refused(QSA_E_ARGUMENT, qsa_model_open("x", &(qsa_model_options){0}, &other), "call qsa_model_options_init");
    assert_null(context);
    assert_null(other);
}

static void bad_options_are_refused_by_name(void **state)
{
    (void)state;
    qsa_context *context = NULL;
    qsa_context_options o = model_options(0, 16, 1);
    assert_refused(QSA_E_LIMIT, qsa_context_create(model, &o, &context), "sessions");
    o = model_options(1, QSA_MAX_STEP_TOKENS + 1, 1);
    assert_refused(QSA_E_LIMIT, qsa_context_create(model, &o, &context), "chunk");
    o = model_options(1, 16, 0);
    assert_refused(QSA_E_LIMIT, qsa_context_create(model, &o, &context), "threads");
    o = model_options(1, 16, QSA_MAX_PARTS + 1);
    assert_refused(QSA_E_LIMIT, qsa_context_create(model, &o, &context), "threads");
    assert_null(context);
}

/* As many threads as are legal; a context starts no more than are useful. */
static void very_many_threads_work(void **state)
{
    (void)state;
    const qsa_context_options options = model_options(1, 16, QSA_MAX_PARTS);
    qsa_context *context = model_context(model, &options);
    qsa_session *s = model_session(context);
    free(feed(s, tokens, 2));
    qsa_context_destroy(context);
}

static void set_flush_to_zero(int on)
{
#if defined(__SSE2__)
    enum { FLUSH_AND_DAZ = 0x8040 };
    _mm_setcsr((_mm_getcsr() & ~(unsigned)FLUSH_AND_DAZ) | (on ? FLUSH_AND_DAZ : 0));
#else
    (void)on;
#endif
}

/* A host that flushes subnormal numbers to zero, or rounds in another direction, changes nothing and stays so. */
static void rounding_of_the_host_does_not_matter(void **state)
{
    (void)state;
    qsa_context *context = small_context(2, 16);
    qsa_session *plain = model_session(context), *odd = model_session(context);
    float *expected = feed(plain, tokens, 40);
    fesetround(FE_UPWARD);
    set_flush_to_zero(1);
    float *found = feed(odd, tokens, 40);
    assert_int_equal(fegetround(), FE_UPWARD);
    set_flush_to_zero(0);
    fesetround(FE_TONEAREST);
    test_same_floats("logits", expected, found, vocabulary);
    free(expected);
    free(found);
    qsa_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_allocations_leave_nothing),
        cmocka_unit_test(bad_batches_are_refused_and_change_nothing),
        cmocka_unit_test(full_context_is_said_and_changes_nothing),
        cmocka_unit_test(failure_inside_the_pass_changes_nothing),
        cmocka_unit_test(return_gives_the_state_of_the_mark),
        cmocka_unit_test(marked_session_equals_one_that_never_left),
        cmocka_unit_test(anchor_is_decided_by_the_first_token),
        cmocka_unit_test(sessions_are_counted_and_their_memory_too),
        cmocka_unit_test(feeding_goes_in_chunks_and_says_so),
        cmocka_unit_test(stopped_feeding_keeps_the_chunks_that_were_done),
        cmocka_unit_test(stopped_wanting_keeps_the_beginning_of_the_list),
        cmocka_unit_test(everything_is_busy_inside_a_callback),
        cmocka_unit_test(structs_without_init_are_refused),
        cmocka_unit_test(bad_options_are_refused_by_name),
        cmocka_unit_test(very_many_threads_work),
        cmocka_unit_test(rounding_of_the_host_does_not_matter),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
