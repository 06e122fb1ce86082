/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are saved and loaded: they go on as if they had never been away; files that are not right are refused
 * by the name of the part, and nothing is changed. */
#include "model_fixture.h"

#include "make/quoter.h"
#include "session/sampler.h"
#include "session/saved.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4900, FLOATS = 1024 };

static qsa_model *models[4]; /* tiny f32, bf16, q8_0; a small quoter */
static int32_t text[MOST];
static char path[64], second_path[80];

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
    snprintf(path, sizeof path, "%s.saved", model_temporary());
    snprintf(second_path, sizeof second_path, "%s.second", model_temporary());
    return 0;
}

static int close_models(void **state)
{
    for (int i = 0; i < 4; i++)
        qsa_model_close(models[i]);
    unlink(path);
    unlink(second_path);
    return model_temporary_remove(state);
}

static qsa_context_options options_of(uint32_t sessions, uint32_t chunk, uint32_t threads)
{
    qsa_context_options options = model_options(sessions, chunk, threads);
    options.context = 8192;
    options.kv = QSA_KV_BF16;
    options.index = QSA_PROFILE_BF16;
    return options;
}

static qsa_context *context_of(const qsa_model *model, uint32_t sessions, uint32_t chunk, uint32_t threads)
{
    const qsa_context_options options = options_of(sessions, chunk, threads);
    return model_context(model, &options);
}

static void feed(qsa_session *s, const int32_t *tokens, size_t n, float *logits)
{
    model_ok(qsa_session_feed(s, tokens, n, logits, NULL, NULL));
}

static qsa_session *load(qsa_context *context)
{
    qsa_session *s = NULL;
    model_ok(qsa_session_load(context, path, NULL, &s));
    return s;
}

static uint64_t digest(const qsa_session *s)
{
    uint64_t value = 0;
    assert_int_equal(qsa_seq_digest(s->context->cache, s->seq, &value), QSA_OK);
    return value;
}

static model_bytes read_all(const char *name)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    model_bytes bytes = {NULL, (size_t)ftell(file)};
    bytes.data = test_alloc(bytes.size, 1);
    rewind(file);
    assert_int_equal(fread(bytes.data, 1, bytes.size, file), bytes.size);
    fclose(file);
    return bytes;
}

/* ---- going on ---- */

static void loaded_session_goes_on_as_if_never_away(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 3, 64, 1000};
    for (size_t m = 0; m < 4; m++) {
        const uint32_t vocabulary = model_vocabulary(models[m]);
        float expected[FLOATS], found[FLOATS];
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            qsa_context *context = context_of(models[m], 1, 64, 1), *other = context_of(models[m], 2, 37, 2);
            qsa_session *s = model_session(context), *before = model_session(other);
            feed(before, text + 100, 300, NULL); /* the checkpoint is not a fresh one */
            feed(s, text, lengths[i], NULL);
            model_ok(qsa_session_save(s, NULL, path));
            qsa_session_close(before);
            qsa_session *loaded = load(other);
            assert_int_equal(digest(loaded), digest(s));
            feed(s, text + 2000, 50, expected);
            feed(loaded, text + 2000, 50, found);
            test_same_floats("logits", expected, found, vocabulary);
            assert_int_equal(digest(loaded), digest(s));
            qsa_context_destroy(context);
            qsa_context_destroy(other);
        }
    }
}

static void index_is_as_long_as_k_and_v_after_a_long_suffix(void **state)
{
    (void)state;
    enum { PREFIX = 2718, SUFFIX = 2052 };
    qsa_context *context = context_of(models[3], 1, 256, 2), *other = context_of(models[3], 1, 100, 1);
    qsa_session *s = model_session(context);
    float expected[FLOATS], found[FLOATS];
    feed(s, text, PREFIX, NULL);
    model_ok(qsa_session_save(s, NULL, path));
    qsa_session *loaded = load(other);
    feed(s, text + 51, SUFFIX, expected);
    feed(loaded, text + 51, SUFFIX, found);
    test_same_floats("logits", expected, found, model_vocabulary(models[3]));
    qsa_seq_info info;
    assert_int_equal(qsa_seq_query(other->cache, loaded->seq, &info), QSA_OK);
    assert_int_equal(info.tokens, PREFIX + SUFFIX);
    assert_int_equal(info.groups, (PREFIX + SUFFIX) / 4);
    assert_int_equal(qsa_seq_verify_index(other->cache, loaded->seq), QSA_OK);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void loaded_prompt_and_eight_more_computes_eight(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 1, 256, 1), *other = context_of(models[2], 1, 64, 1);
    qsa_session *s = model_session(context);
    float logits[FLOATS], expected[FLOATS];
    qsa_reuse reuse;
    model_ok(qsa_session_want(s, text, 2900, expected, NULL, NULL, NULL));
    model_ok(qsa_session_save(s, NULL, path));
    qsa_session *loaded = load(other);
    model_ok(qsa_session_want(loaded, text, 2900, logits, &reuse, NULL, NULL));
    assert_int_equal(reuse.computed, 0);
    test_same_floats("logits", expected, logits, model_vocabulary(models[2]));
    model_ok(qsa_session_want(loaded, text, 2908, logits, &reuse, NULL, NULL));
    assert_int_equal(reuse.reused, 2900);
    assert_int_equal(reuse.computed, 8);
    qsa_context_stats stats;
    qsa_context_get_stats(other, &stats);
    assert_int_equal(stats.counters.tokens, 8);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

/* Three drafts, two of them rejected; then further back, to a checkpoint of the file. */
static void loaded_session_can_be_rolled_back(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[3], 1, 256, 1), *other = context_of(models[3], 1, 100, 1);
    qsa_session *pair[] = {model_session(context), NULL};
    float logits[2][FLOATS];
    feed(pair[0], text, 2000, NULL);
    model_ok(qsa_session_save(pair[0], NULL, path));
    pair[1] = load(other);
    for (int i = 0; i < 2; i++) {
        int32_t list[2031];
        qsa_reuse reuse;
        memcpy(list, text, sizeof list);
        feed(pair[i], text + 2000, 27, NULL);
        feed(pair[i], text + 900, 3, NULL);
        list[2027] = text[900];
        model_ok(qsa_session_want(pair[i], list, 2028, NULL, &reuse, NULL, NULL));
        assert_int_equal(reuse.common, 2028);
        assert_int_equal(reuse.computed, 1);
        feed(pair[i], text + 5, 3, logits[i]);
        model_ok(qsa_session_want(pair[i], text, 1500, NULL, &reuse, NULL, NULL));
        assert_true(reuse.computed <= CHECKPOINT_SPACING + 256);
    }
    test_same_floats("logits", logits[0], logits[1], model_vocabulary(models[3]));
    assert_int_equal(digest(pair[0]), digest(pair[1]));
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void saving_a_loaded_session_gives_the_same_bytes(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 1, 64, 1), *other = context_of(models[2], 1, 300, 2);
    qsa_session *s = model_session(context);
    feed(s, text, 900, NULL);
    feed(s, text, 77, NULL);
    model_ok(qsa_session_save(s, NULL, path));
    model_ok(qsa_session_save(load(other), NULL, second_path));
    model_bytes first = read_all(path), second = read_all(second_path);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    free(first.data);
    free(second.data);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void random_numbers_go_on(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 1, 64, 1), *other = context_of(models[2], 1, 64, 1);
    qsa_session *s = model_session(context), *loaded = NULL;
    qsa_sampler_options options;
    qsa_sampler_options_init(&options);
    options.temperature = 1;
    options.seed = 5;
    qsa_sampler *sampler = NULL, *fresh = NULL;
    float logits[FLOATS];
    int32_t token = 0, again = 0;
    model_ok(qsa_sampler_create(&options, model_vocabulary(models[2]), &sampler));
    model_ok(qsa_sampler_create(&options, model_vocabulary(models[2]), &fresh));
    feed(s, text, 30, logits);
    model_ok(qsa_sampler_next(sampler, logits, &token));
    model_ok(qsa_session_save(s, sampler, path));
    model_ok(qsa_session_load(other, path, fresh, &loaded));
    assert_int_equal(qsa_sampler_state(fresh), qsa_sampler_state(sampler));
    model_ok(qsa_sampler_next(sampler, logits, &token));
    model_ok(qsa_sampler_next(fresh, logits, &again));
    assert_int_equal(token, again);
    qsa_session_close(loaded);
    loaded = load(other); /* nobody wants them */
    qsa_sampler_destroy(sampler);
    qsa_sampler_destroy(fresh);
    qsa_context_destroy(context);
    qsa_context_destroy(other);
}

static void empty_sessions_and_their_anchors_survive(void **state)
{
    (void)state;
    float expected[FLOATS], found[FLOATS];
    for (int fed = 0; fed < 2; fed++) {
        qsa_context *context = context_of(models[2], 1, 64, 1), *other = context_of(models[2], 1, 64, 1);
        qsa_session *s = model_session(context);
        model_ok(qsa_session_set_anchor(s, 1003));
        if (fed) {
            feed(s, text, 20, NULL);
            model_ok(qsa_session_want(s, NULL, 0, NULL, NULL, NULL, NULL));
        }
        model_ok(qsa_session_save(s, NULL, path));
        qsa_session *loaded = load(other);
        assert_int_equal(qsa_session_tokens(loaded), 0);
        assert_int_equal(qsa_session_set_anchor(loaded, 1003), fed ? QSA_E_ORDER : QSA_OK);
        feed(s, text, 10, expected);
        feed(loaded, text, 10, found);
        test_same_floats("logits", expected, found, model_vocabulary(models[2]));
        assert_int_equal(digest(s), digest(loaded));
        qsa_context_destroy(context);
        qsa_context_destroy(other);
    }
}

/* ---- refusals ---- */

/* What must not change: what is stored, and how much room is left. */
typedef struct witness {
    qsa_context *context;
    qsa_session *session;
    uint64_t digest, free_tokens, tokens, state_bytes;
} witness;

static uint64_t state_bytes(const qsa_context *context)
{
    qsa_context_stats stats;
    qsa_context_get_stats(context, &stats);
    return stats.state_bytes;
}

static witness watch(qsa_context *context)
{
    witness w = {.context = context, .session = model_session(context)};
    feed(w.session, text + 11, 70, NULL);
    w.digest = digest(w.session);
    w.free_tokens = qsa_cache_free_tokens(context->cache);
    w.tokens = context->tokens;
    w.state_bytes = state_bytes(context);
    return w;
}

static void assert_refused(const witness *w, const char *file, qsa_status expected, const char *word)
{
    qsa_session *s = NULL;
    const qsa_status found = qsa_session_load(w->context, file, NULL, &s);
    if (found != expected || strstr(qsa_engine_error(), word) == NULL)
        fail_msg("%s, expected %s and '%s': %s", qsa_status_name(found), qsa_status_name(expected), word,
                 qsa_engine_error());
    assert_null(strchr(qsa_engine_error(), '\n'));
    assert_null(s);
    assert_int_equal(digest(w->session), w->digest);
    assert_int_equal(qsa_cache_free_tokens(w->context->cache), w->free_tokens);
    assert_int_equal(w->context->tokens, w->tokens);
    assert_int_equal(w->context->session_count, 1);
    assert_int_equal(state_bytes(w->context), w->state_bytes);
    assert_int_equal(qsa_cache_check(w->context->cache), QSA_OK);
}

static void save_some(const qsa_model *model, size_t n)
{
    qsa_context *context = context_of(model, 1, 64, 1);
    qsa_session *s = model_session(context);
    feed(s, text, n, NULL);
    feed(s, text, 10, NULL);
    model_ok(qsa_session_save(s, NULL, path));
    qsa_context_destroy(context);
}

static void refuse_with(const qsa_model *model, const qsa_context_options *options, qsa_status status,
                        const char *const words[2])
{
    const witness w = watch(model_context(model, options));
    assert_refused(&w, path, status, words[0]);
    assert_refused(&w, path, status, words[1]);
    qsa_context_destroy(w.context);
}

static void other_models_types_and_sizes_are_refused_with_both_values(void **state)
{
    (void)state;
    save_some(models[1], 100);
    qsa_context_options options = options_of(2, 64, 1);
    refuse_with(models[2], &options, QSA_E_UNSUPPORTED, (const char *const[]){"model", "digest"});
    refuse_with(models[0], &options, QSA_E_UNSUPPORTED, (const char *const[]){"model", "digest"});
    options.kv = QSA_KV_F32;
    refuse_with(models[1], &options, QSA_E_UNSUPPORTED, (const char *const[]){"f32", "bf16"});
    options = options_of(2, 64, 1);
    options.index = QSA_PROFILE_F32;
    refuse_with(models[1], &options, QSA_E_UNSUPPORTED, (const char *const[]){"f32", "bf16"});
    options = options_of(2, 64, 1);
    options.context = 179;
    refuse_with(models[1], &options, QSA_E_FULL, (const char *const[]){"110", "179"});
    options = options_of(1, 64, 1);
    refuse_with(models[1], &options, QSA_E_FULL, (const char *const[]){"1 sessions", "open"});
    options = options_of(2, 64, 1);
    const witness w = watch(model_context(models[1], &options));
    assert_refused(&w, "nowhere/at all", QSA_E_IO, "nowhere");
    assert_refused(&w, "/", QSA_E_IO, "/");
    assert_int_equal(qsa_session_save(w.session, NULL, "nowhere/at all"), QSA_E_IO);
    assert_int_equal(qsa_session_save(w.session, NULL, "/"), QSA_E_IO);
    qsa_context_destroy(w.context);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    save_some(models[2], 40);
    model_bytes good = read_all(path);
    const witness w = watch(context_of(models[2], 2, 64, 1));
    for (size_t i = 0; i < 60; i++) {
        FILE *file = fopen(second_path, "wb");
        const size_t at = good.size / 60 * i + i;
        const bool cut = i % 3 == 0;
        good.data[at] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(fwrite(good.data, 1, cut ? at : good.size, file), cut ? at : good.size);
        good.data[at] ^= (uint8_t)(1 << i % 8);
        fclose(file);
        qsa_session *s = NULL;
        assert_int_not_equal(qsa_session_load(w.context, second_path, NULL, &s), QSA_OK);
    }
    assert_refused(&w, second_path, QSA_E_FORMAT, "snapshot");
    qsa_context_destroy(w.context);
    free(good.data);
}

/* ---- parts of the engine, wrong though every checksum is right ---- */

typedef struct forged {
    qsa_context *context;
    qsa_snapshot file;
    qsa_section sections[16];
    uint32_t n;
} forged;

/* The parts of what was saved at `path`. */
static forged forge_saved(void)
{
    forged f = {.context = context_of(models[2], 2, 64, 1)};
    qsa_snapshot about;
    assert_int_equal(qsa_snapshot_inspect_file(path, &about), QSA_OK);
    assert_int_equal(qsa_snapshot_load(f.context->cache, about.model_digest, path, &f.file), QSA_OK);
    qsa_snapshot_free(&about);
    f.n = f.file.n_sections;
    memcpy(f.sections, f.file.sections, f.n * sizeof *f.sections);
    return f;
}

static forged forge_begin(void)
{
    save_some(models[2], 40);
    forged f = forge_saved();
    assert_int_equal(f.n, 5); /* head, tokens, the state, two checkpoints */
    return f;
}

static void forge_end(forged *f)
{
    qsa_snapshot_free(&f->file);
    qsa_context_destroy(f->context);
}

static void forge_save(const forged *f)
{
    assert_int_equal(qsa_snapshot_save(f->context->cache, f->file.sequences, 1, f->sections, f->n, f->file.model_digest,
                                       second_path),
                     QSA_OK);
}

static const char *const PART_NAMES[] = {"ENGN", "TOKS", "ST00", "ST01", "ST02"};

static void parts_that_are_missing_or_of_another_size_are_refused_by_name(void **state)
{
    (void)state;
    forged f = forge_begin();
    const witness w = watch(context_of(models[2], 2, 64, 1));
    for (uint32_t i = 0; i < 5; i++) {
        const qsa_section kept = f.sections[i];
        f.sections[i].tag = SAVED_TAG('J', 'U', 'N', 'K'); /* as many, but not this one */
        forge_save(&f);
        assert_refused(&w, second_path, QSA_E_FORMAT, PART_NAMES[i]);
        f.sections[i] = kept;
        for (int longer = 0; longer < 2; longer++) {
            void *bytes = test_alloc(kept.size_bytes + 4, 1);
            memcpy(bytes, kept.data, kept.size_bytes);
            f.sections[i] = (qsa_section){kept.tag, bytes, longer ? kept.size_bytes + 4 : kept.size_bytes - 4};
            forge_save(&f);
            assert_refused(&w, second_path, QSA_E_FORMAT, PART_NAMES[i]);
            free(bytes);
        }
        f.sections[i] = kept;
    }
    f.sections[f.n++] = (qsa_section){SAVED_TAG('J', 'U', 'N', 'K'), "?", 1};
    forge_save(&f);
    assert_refused(&w, second_path, QSA_E_FORMAT, "6 sections");
    f.n = 0;
    forge_save(&f); /* somebody else's snapshot */
    assert_refused(&w, second_path, QSA_E_FORMAT, "ENGN is missing");
    forge_end(&f);
    qsa_context_destroy(w.context);
}

/* One 4-byte word of a part changed. */
static void refuse_word(forged *f, const witness *w, uint32_t part, size_t at, uint32_t word, qsa_status status,
                        const char *says)
{
    const qsa_section kept = f->sections[part];
    uint8_t *bytes = test_alloc(kept.size_bytes, 1);
    memcpy(bytes, kept.data, kept.size_bytes);
    memcpy(bytes + at, &word, sizeof word);
    f->sections[part].data = bytes;
    forge_save(f);
    assert_refused(w, second_path, status, says);
    f->sections[part] = kept;
    free(bytes);
}

static void numbers_that_no_session_has_are_refused(void **state)
{
    (void)state;
    enum { NOT_A_NUMBER = 0x7fc00000, STATE_FLOATS = 16 };
    forged f = forge_begin();
    const witness w = watch(context_of(models[2], 2, 64, 1));
    refuse_word(&f, &w, 0, 0, 1, QSA_E_UNSUPPORTED, "version 1, supported is 3");
    refuse_word(&f, &w, 0, 4, 3, QSA_E_FORMAT, "ENGN");
    refuse_word(&f, &w, 0, 4, UINT32_MAX, QSA_E_FORMAT, "ENGN");
    refuse_word(&f, &w, 0, 8, 5, QSA_E_FORMAT, "anchor");
    refuse_word(&f, &w, 0, 16, 0, QSA_E_FORMAT, "ENGN");
    refuse_word(&f, &w, 0, 16, 2, QSA_E_FORMAT, "ENGN");
    refuse_word(&f, &w, 0, 20, 1, QSA_E_FORMAT, "ENGN");
    refuse_word(&f, &w, 1, 8, UINT32_MAX, QSA_E_FORMAT, "TOKS");
    refuse_word(&f, &w, 1, 8, model_vocabulary(models[2]), QSA_E_FORMAT, "TOKS");
    refuse_word(&f, &w, 2, 0, 49, QSA_E_FORMAT, "ST00");
    refuse_word(&f, &w, 2, 8, 1, QSA_E_FORMAT, "ST00");
    refuse_word(&f, &w, 2, STATE_FLOATS, NOT_A_NUMBER, QSA_E_FORMAT, "ST00");
    refuse_word(&f, &w, 3, 0, 51, QSA_E_FORMAT, "ST01"); /* beyond the end */
    refuse_word(&f, &w, 4, 0, 40, QSA_E_FORMAT, "ST02"); /* twice */
    refuse_word(&f, &w, 4, STATE_FLOATS + 40, NOT_A_NUMBER, QSA_E_FORMAT, "ST02");
    forge_save(&f); /* and all of it was good */
    qsa_session *s = NULL;
    model_ok(qsa_session_load(w.context, second_path, NULL, &s));
    assert_int_equal(qsa_session_tokens(s), 50);
    forge_end(&f);
    qsa_context_destroy(w.context);
}

/* A session that was never fed has no sequence to contradict its anchor. */
static void anchor_of_an_empty_session_is_held_to_its_range(void **state)
{
    (void)state;
    qsa_context *context = context_of(models[2], 2, 64, 1);
    qsa_session *empty = model_session(context);
    model_ok(qsa_session_set_anchor(empty, 7));
    model_ok(qsa_session_save(empty, NULL, path));
    forged f = forge_saved();
    const witness w = watch(context_of(models[2], 2, 64, 1));
    refuse_word(&f, &w, 0, 8, UINT32_C(1) << 31, QSA_E_FORMAT, "impossible values");
    refuse_word(&f, &w, 0, 12, 1, QSA_E_FORMAT, "impossible values");
    refuse_word(&f, &w, 0, 12, UINT32_MAX, QSA_E_FORMAT, "impossible values");
    forge_save(&f);
    qsa_session *s = NULL;
    model_ok(qsa_session_load(w.context, second_path, NULL, &s));
    forge_end(&f);
    qsa_context_destroy(w.context);
    qsa_context_destroy(context);
}

/* ---- memory ---- */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static int calls_until_failure; /* 0: none fails */

static bool fails_now(void)
{
    return calls_until_failure > 0 && --calls_until_failure == 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    save_some(models[2], 40);
    const witness w = watch(context_of(models[2], 2, 64, 1));
    qsa_session *s = NULL;
    int call = 0;
    while (s == NULL) {
        calls_until_failure = ++call;
        const qsa_status status = qsa_session_load(w.context, path, NULL, &s);
        calls_until_failure = 0;
        assert_int_equal(status, s == NULL ? QSA_E_MEMORY : QSA_OK);
        if (s == NULL) {
            assert_int_equal(state_bytes(w.context), w.state_bytes);
            assert_int_equal(qsa_cache_free_tokens(w.context->cache), w.free_tokens);
        }
        assert_true(call < 200);
    }
    assert_true(call > 6);
    calls_until_failure = 1;
    assert_int_equal(qsa_session_save(s, NULL, second_path), QSA_E_MEMORY);
    calls_until_failure = 0;
    model_ok(qsa_session_save(s, NULL, second_path));
    qsa_context_destroy(w.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_session_goes_on_as_if_never_away),
        cmocka_unit_test(index_is_as_long_as_k_and_v_after_a_long_suffix),
        cmocka_unit_test(loaded_prompt_and_eight_more_computes_eight),
        cmocka_unit_test(loaded_session_can_be_rolled_back),
        cmocka_unit_test(saving_a_loaded_session_gives_the_same_bytes),
        cmocka_unit_test(random_numbers_go_on),
        cmocka_unit_test(empty_sessions_and_their_anchors_survive),
        cmocka_unit_test(other_models_types_and_sizes_are_refused_with_both_values),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(parts_that_are_missing_or_of_another_size_are_refused_by_name),
        cmocka_unit_test(numbers_that_no_session_has_are_refused),
        cmocka_unit_test(anchor_of_an_empty_session_is_held_to_its_range),
        cmocka_unit_test(failed_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
