/* SPDX-License-Identifier: Apache-2.0 */
/* The engine against the recorded reference model: logits, greedy tokens, selections, and what crosses into libqsa.
 * Tolerances are those of tests/golden/README.md. */
#include "model_fixture.h"

#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOGITS = 5e-4, LAYERS = 3e-4;

enum { NAME_BYTES = 64 };

/* One sequence of a recorded case; its entries begin with prefix. */
typedef struct sequence {
    const golden_record *header;
    const char *prefix;
    const golden_tensor *ids;
    size_t first; /* column of its first token in the batch */
    qsa_session *session;
    float *logits;
    size_t compared; /* selections */
} sequence;

typedef struct batch {
    sequence *sequences;
    size_t count;
    qsa_model_info info;
} batch;

static const char *entry(const sequence *s, const char *name, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s%s", s->prefix, name);
    return out;
}

static const char *layer_entry(const sequence *s, uint32_t layer, const char *name, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%slayer%u_%s", s->prefix, layer, name);
    return out;
}

static const golden_tensor *tensor(const sequence *s, const char *full_name)
{
    golden_error error = {{0}};
    const golden_tensor *t = golden_find_tensor(s->header, full_name, &error);
    test_no_golden_error(&error);
    return t;
}

/* ---- the tap ---- */

static void compare_selections(sequence *s, uint32_t layer, const qsa_step *step)
{
    char name[NAME_BYTES];
    golden_error error = {{0}};
    const size_t rows = tensor(s, layer_entry(s, layer, "fragile", name))->count;
    const int32_t *fragile = golden_integers(s->header, name, rows, &error);
    golden_ragged selected = golden_find_ragged(s->header, layer_entry(s, layer, "selected", name), rows, &error);
    test_no_golden_error(&error);
    for (size_t t = 0; t < s->ids->count; t++) {
        uint32_t groups[QSA_MAX_BUDGET / 32], n = 0;
        assert_int_equal(qsa_step_selection(step, (uint32_t)(s->first + t), groups, &n), QSA_OK);
        if (fragile[t])
            continue;
        assert_int_equal(n, selected.begin[t + 1] - selected.begin[t]);
        test_same_integers(name, selected.values->integers + selected.begin[t], (const int32_t *)groups, n);
        s->compared++;
    }
}

static void compare_rows(const sequence *s, uint32_t layer, const char *what, const qsa_strided *found)
{
    char name[NAME_BYTES];
    const golden_tensor *points = tensor(s, entry(s, "qsa_position", name));
    const golden_tensor *recorded = tensor(s, layer_entry(s, layer, what, name));
    const size_t dim = recorded->dims[recorded->rank - 1], heads = recorded->rank == 3 ? recorded->dims[1] : 1;
    for (size_t p = 0; p < points->count; p++)
        for (size_t h = 0; h < heads; h++)
            test_close_floats(name, recorded->floats + (p * heads + h) * dim,
                              found->data + (s->first + (size_t)points->integers[p]) * found->token_stride +
                                  h * found->head_stride,
                              dim, LAYERS);
}

static void compare_layer(void *user, uint32_t layer, uint32_t tokens, const qsa_tensors *tensors,
                          const qsa_output *output, const qsa_step *step)
{
    batch *b = user;
    const qsa_strided out = {output->data, output->token_stride, output->head_stride};
    size_t all = 0;
    for (size_t i = 0; i < b->count; i++) {
        sequence *s = &b->sequences[i];
        char name[NAME_BYTES];
        all += s->ids->count;
        compare_selections(s, layer, step);
        if (!golden_has(s->header, entry(s, "qsa_position", name)))
            continue;
        compare_rows(s, layer, "index_q", &tensors->index_q);
        compare_rows(s, layer, "raw_key", &tensors->raw_key);
        compare_rows(s, layer, "v", &tensors->v);
        compare_rows(s, layer, "output", &out);
    }
    assert_int_equal(tokens, all);
}

/* Keys as stored, normed and rotated, of QSA layer number qsa_layer. */
static void compare_stored_keys(const sequence *s, uint32_t layer, uint32_t qsa_layer)
{
    char name[NAME_BYTES];
    if (!golden_has(s->header, entry(s, "qsa_position", name)))
        return;
    const golden_tensor *points = tensor(s, name);
    const golden_tensor *recorded = tensor(s, layer_entry(s, layer, "k", name));
    const size_t size = recorded->dims[1] * recorded->dims[2];
    float *found = test_alloc(size, sizeof *found);
    for (size_t p = 0; p < points->count; p++) {
        const int64_t at = s->session->anchor + points->integers[p];
        assert_int_equal(qsa_seq_read(s->session->context->cache, s->session->seq, qsa_layer, QSA_TENSOR_K,
                                      (qsa_span){at, at + 1}, found),
                         QSA_OK);
        test_close_floats(name, recorded->floats + p * size, found, size, LAYERS);
    }
    free(found);
}

/* ---- a case ---- */

static void compare_logits(const sequence *s, uint32_t vocabulary)
{
    char name[NAME_BYTES];
    if (!golden_has(s->header, entry(s, "logits", name)))
        return;
    const golden_tensor *recorded = tensor(s, name), *points = tensor(s, entry(s, "logit_position", name));
    assert_int_equal(recorded->count, points->count * vocabulary);
    for (size_t i = 0; i < points->count; i++)
        test_close_floats("logits", recorded->floats + i * vocabulary,
                          s->logits + (size_t)points->integers[i] * vocabulary, vocabulary, LOGITS);
}

/* All sequences in one batch, with the logits of every token. The context stays open. */
static void run_batch(batch *b, const qsa_model *model)
{
    qsa_batch_item items[2];
    uint32_t tokens = 0;
    for (size_t i = 0; i < b->count; i++) {
        b->sequences[i].first = tokens;
        tokens += (uint32_t)b->sequences[i].ids->count;
    }
    const qsa_context_options options = model_options((uint32_t)b->count, tokens, 1);
    qsa_context *context = model_context(model, &options);
    qsa_model_get_info(model, &b->info);
    for (size_t i = 0; i < b->count; i++) {
        sequence *s = &b->sequences[i];
        char name[NAME_BYTES];
        s->session = model_session(context);
        s->logits = test_alloc(s->ids->count * b->info.vocabulary, sizeof *s->logits);
        if (golden_has(s->header, entry(s, "first_position", name)))
            model_ok(qsa_session_set_anchor(s->session, golden_integer(s->header, name, 0, NULL)));
        items[i] =
            (qsa_batch_item){s->session, s->ids->integers, (uint32_t)s->ids->count, (uint32_t)s->ids->count, s->logits};
    }
    const qsa_tap tap = {compare_layer, b};
    qsa_context_set_tap(context, &tap);
    model_ok(qsa_batch_run(context, items, b->count));
    qsa_context_set_tap(context, NULL);
}

static void replay(batch *b, const qsa_model *model)
{
    run_batch(b, model);
    for (size_t i = 0; i < b->count; i++) {
        const sequence *s = &b->sequences[i];
        compare_logits(s, b->info.vocabulary);
        compare_stored_keys(s, 3, 0);
        compare_stored_keys(s, 7, 1);
        assert_true(s->compared >= 2 * s->ids->count - 1); /* at most one fragile query in a file */
    }
}

static void finish(batch *b)
{
    qsa_context_destroy(b->sequences[0].session->context);
    for (size_t i = 0; i < b->count; i++)
        free(b->sequences[i].logits);
}

static void replay_one(const char *case_name, const char *file, qsa_weight_storage weights)
{
    golden_file *recorded = test_golden(QSA_GOLDEN_DIR "/model", case_name);
    sequence s = {.header = golden_header(recorded), .prefix = ""};
    s.ids = tensor(&s, "ids");
    batch b = {&s, 1, {0}};
    qsa_model *model = model_open_golden(file, weights);
    replay(&b, model);
    finish(&b);
    qsa_model_close(model);
    golden_free(recorded);
}

/* ---- the cases ---- */

static void plain_text_gives_the_recorded_logits(void **state)
{
    (void)state;
    replay_one("plain.txt", "tiny-bf16.gguf", QSA_WEIGHTS_F32);
}

static void end_of_text_cuts_the_ngram_history(void **state)
{
    (void)state;
    replay_one("eos.txt", "tiny-bf16.gguf", QSA_WEIGHTS_F32);
}

static void fused_experts_dequantised_give_the_recorded_logits(void **state)
{
    (void)state;
    replay_one("q8_0.txt", "tiny-q8_0.gguf", QSA_WEIGHTS_F32);
}

static void left_padding_and_two_sequences_in_one_batch(void **state)
{
    (void)state;
    golden_file *recorded = test_golden(QSA_GOLDEN_DIR "/model", "batch.txt");
    const golden_record *header = golden_header(recorded);
    sequence pair[2] = {{.header = header, .prefix = "seq0_"}, {.header = header, .prefix = "seq1_"}};
    pair[0].ids = tensor(&pair[0], "seq0_ids");
    pair[1].ids = tensor(&pair[1], "seq1_ids");
    batch b = {pair, 2, {0}};
    qsa_model *model = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_F32);
    replay(&b, model);
    assert_int_equal(pair[1].session->anchor, 5);
    finish(&b);
    qsa_model_close(model);
    golden_free(recorded);
}

static int32_t best_of(const float *logits, uint32_t n)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? (int32_t)i : best;
    return best;
}

static void greedy_continuation_gives_the_recorded_tokens(void **state)
{
    (void)state;
    golden_file *recorded = test_golden(QSA_GOLDEN_DIR "/model", "greedy.txt");
    sequence s = {.header = golden_header(recorded), .prefix = ""};
    s.ids = tensor(&s, "ids");
    const golden_tensor *next = tensor(&s, "next");
    batch b = {&s, 1, {0}};
    qsa_model *model = model_open_golden("tiny-bf16.gguf", QSA_WEIGHTS_F32);
    replay(&b, model);
    float *logits = s.logits + (s.ids->count - 1) * b.info.vocabulary;
    for (size_t i = 0; i < next->count; i++) {
        const int32_t token = best_of(logits, b.info.vocabulary);
        assert_int_equal(token, next->integers[i]);
        model_ok(qsa_session_feed(s.session, &token, 1, logits, NULL, NULL));
    }
    finish(&b);
    qsa_model_close(model);
    golden_free(recorded);
}

/* Today's converters write ratios that are all zero; other engines then run dense, and say nothing. */
static void zero_ratios_are_the_released_ratio_and_said(void **state)
{
    (void)state;
    model_bytes bytes = model_bytes_read("tiny-q8_0.gguf");
    uint8_t *ratios = model_bytes_key(&bytes, "qwen4exp.attention.compress_ratios");
    memset(ratios + sizeof(uint32_t) + sizeof(uint64_t), 0, 8 * sizeof(int32_t)); /* after element type and count */
    qsa_model *zero = model_bytes_open(&bytes), *whole = model_open_golden("tiny-q8_0.gguf", QSA_WEIGHTS_NATIVE);
    qsa_model_info info;
    qsa_model_get_info(whole, &info);
    assert_false(info.ratios_missing);
    qsa_model_get_info(zero, &info);
    assert_true(info.ratios_missing);
    assert_int_equal(info.qsa.ratio, 4);
    int32_t tokens[100];
    for (int i = 0; i < 100; i++)
        tokens[i] = i * 7 % 500;
    const qsa_context_options options = model_options(1, 100, 1);
    float *expected = model_run(whole, &options, tokens, 100), *found = model_run(zero, &options, tokens, 100);
    test_same_floats("logits", expected, found, (size_t)100 * info.vocabulary);
    free(expected);
    free(found);
    qsa_model_close(zero);
    qsa_model_close(whole);
    free(bytes.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_gives_the_recorded_logits),
        cmocka_unit_test(end_of_text_cuts_the_ngram_history),
        cmocka_unit_test(fused_experts_dequantised_give_the_recorded_logits),
        cmocka_unit_test(left_padding_and_two_sequences_in_one_batch),
        cmocka_unit_test(greedy_continuation_gives_the_recorded_tokens),
        cmocka_unit_test(zero_ratios_are_the_released_ratio_and_said),
    };
    return cmocka_run_group_tests(tests, model_temporary_make, model_temporary_remove);
}
