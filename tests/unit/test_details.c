/* Every status other than QSA_OK sets the detail, whatever the thread's detail was before: each public function is
 * refused in every way that needs no broken machine, right after another call has left its own detail. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "mini.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL = 42, SYMBOLS = 96, SYMBOL_CHARS = 64 };

/* Functions that were refused at least once. */
static char tried[SYMBOLS][SYMBOL_CHARS];
static int n_tried;

static void note(const char *symbol)
{
    for (int i = 0; i < n_tried; i++)
        if (strcmp(tried[i], symbol) == 0)
            return;
    assert_true(n_tried < SYMBOLS);
    snprintf(tried[n_tried++], SYMBOL_CHARS, "%s", symbol);
}

/* Another call's detail, which holds none of the words that are looked for. */
static void leave_a_detail(void)
{
    qsa_view view;
    assert_int_equal(qsa_run_view(9, 7, 4, 8, 0, &view), QSA_E_RANGE);
}

#define REFUSED(status, words, symbol, ...)                                                                            \
    do {                                                                                                               \
        note(#symbol);                                                                                                 \
        leave_a_detail();                                                                                              \
        world_refused(status, words, symbol(__VA_ARGS__));                                                             \
    } while (0)

static void plain_arrays(void **state)
{
    (void)state;
    const int64_t holes[] = {4, 6}, negative[] = {-1};
    qsa_run run;
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_run_classify, holes, NULL, 2, NULL);
    REFUSED(QSA_E_HOLE, "expected position 5", qsa_run_classify, holes, NULL, 2, &run);
    REFUSED(QSA_E_LIMIT, "position -1", qsa_run_classify, negative, NULL, 1, &run);
    qsa_view view;
    note("qsa_run_view");
    assert_int_equal(qsa_select(NULL, 1, 1, NULL, NULL), QSA_E_ARGUMENT);
    world_refused(QSA_E_RANGE, "before the anchor", qsa_run_view(9, 8, 4, 8, 0, &view));
    world_refused(QSA_E_ARGUMENT, "budget 7", qsa_run_view(0, 8, 4, 7, 0, &view));
    world_refused(QSA_E_LIMIT, "2147483647", qsa_run_view(-1, 8, 4, 8, 0, &view));
    const float inf = 1.0f / 0.0f, bad[8] = {1, 2, inf}, good[8] = {1, 2, 3}, negative_score[2] = {1, -1};
    float out[64];
    uint32_t groups[8] = {3, 3}, n;
    REFUSED(QSA_E_ARGUMENT, "score", qsa_score, NULL, 1, 8, good, 1, out);
    REFUSED(QSA_E_NONFINITE, "pooled key of group 0", qsa_score, good, 1, 8, bad, 1, out);
    REFUSED(QSA_E_ARGUMENT, "select", qsa_select, good, 3, 0, groups, &n);
    REFUSED(QSA_E_LIMIT, "select", qsa_select, good, 3, QSA_MAX_BUDGET + 1, groups, &n);
    REFUSED(QSA_E_NONFINITE, "group 1", qsa_select, negative_score, 2, 1, groups, &n);
    REFUSED(QSA_E_ARGUMENT, "ratio 3", qsa_selected_tokens, groups, 1, 3, 16, (uint32_t *)out, &n);
    REFUSED(QSA_E_ARGUMENT, "place 1", qsa_selected_tokens, groups, 2, 4, 16, (uint32_t *)out, &n);
    REFUSED(QSA_E_ARGUMENT, "dim 0", qsa_norm_rotate, good, 1, 0, NULL, 1, 0, NULL, NULL, QSA_PROFILE_F32, out);
    REFUSED(QSA_E_NONFINITE, "element 2", qsa_norm_rotate, bad, 1, 8, NULL, 1, 0, NULL, NULL, QSA_PROFILE_F32, out);
}

static void configurations(void **state)
{
    (void)state;
    qsa_config config = mini_config(), wrong = mini_config();
    qsa_rotary rotary;
    qsa_memory_plan plan;
    qsa_cache *cache = NULL;
    float q[16] = {0}, k[16] = {0}, out[16];
    const uint32_t token = 0;
    const qsa_triple far = {1 << 25, 0, 0};
    wrong.ratio = 3;
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_rotary_init, &config, NULL);
    REFUSED(QSA_E_ARGUMENT, "ratio is 3", qsa_rotary_init, &wrong, &rotary);
    world_ok(qsa_rotary_init(&config, &rotary));
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_rotary_cos_sin, NULL, far, q, k);
    REFUSED(QSA_E_LIMIT, "33554432", qsa_rotary_cos_sin, &rotary, far, q, k);
    REFUSED(QSA_E_ARGUMENT, "ratio is 3", qsa_pool_keys, &wrong, &rotary, k, &far, 0, NULL, out);
    REFUSED(QSA_E_LIMIT, "beyond 2^24", qsa_pool_keys, &config, &rotary, (const float[32]){0}, &far, 1, NULL, out);
    REFUSED(QSA_E_ARGUMENT, "ratio is 3", qsa_attend_selected, &wrong, q, k, k, &token, 1, out);
    REFUSED(QSA_E_ARGUMENT, "no token", qsa_attend_dense, &config, q, k, k, 0, out);
    REFUSED(QSA_E_ARGUMENT, "ratio is 3", qsa_plan_memory, &wrong, &plan);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_plan_memory, &config, NULL);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_cache_create, &config, NULL);
    wrong = config;
    wrong.layers = QSA_MAX_LAYERS + 1;
    REFUSED(QSA_E_LIMIT, "layers is 1025", qsa_cache_create, &wrong, &cache);
    const float infinite[8] = {1.0f / 0.0f};
    const qsa_norm_weights norms[3] = {{.index_k = infinite}};
    wrong = config;
    wrong.norms = norms;
    REFUSED(QSA_E_NONFINITE, "index_k[0]", qsa_cache_create, &wrong, &cache);
    setenv("QSA_ISA", "abacus", 1);
    REFUSED(QSA_E_UNSUPPORTED, "abacus", qsa_cache_create, &config, &cache);
    unsetenv("QSA_ISA");
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_cache_config, NULL, &config);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_cache_counters, NULL, NULL);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_cache_check, NULL);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_cache_compact, NULL);
    qsa_device *device;
    size_t n;
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_device_list, NULL, 1, &n);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_device_describe, NULL, NULL);
    REFUSED(QSA_E_ARGUMENT, "abacus", qsa_device_open, "abacus", NULL, &device);
    qsa_threads *threads;
    REFUSED(QSA_E_ARGUMENT, "0 is not 1", qsa_threads_create, 0, &threads);
    assert_null(cache);
}

static void verbs(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    qsa_cache *cache = mini_create(&config);
    qsa_seq seq, out;
    uint64_t digest;
    float value;
    qsa_triple triple;
    const qsa_seq none = {0};
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_seq_open, cache, NULL);
    mini_ok(qsa_seq_open(cache, &seq));
    mini_feed(cache, seq, 0, 20, 1, NULL);
    REFUSED(QSA_E_SEQUENCE, "generation 0", qsa_seq_close, cache, none);
    REFUSED(QSA_E_ARGUMENT, "NULL", qsa_seq_query, cache, seq, NULL);
    REFUSED(QSA_E_RANGE, "rewind to 21", qsa_seq_rewind, cache, seq, 21);
    REFUSED(QSA_E_RANGE, "evict at 21", qsa_seq_evict, cache, seq, 21);
    REFUSED(QSA_E_HOLE, "between 3 and 7", qsa_seq_remove, cache, seq, ((qsa_span){4, 7}));
    REFUSED(QSA_E_RANGE, "shift by", qsa_seq_shift, cache, seq, -1);
    REFUSED(QSA_E_ARGUMENT, "window of 3", qsa_seq_window, cache, seq, 3);
    REFUSED(QSA_E_RANGE, "fork at 21", qsa_seq_fork, cache, seq, 21, &out);
    REFUSED(QSA_E_ARGUMENT, "copy", qsa_seq_copy, cache, seq, NULL);
    REFUSED(QSA_E_RANGE, "whole groups", qsa_seq_read, cache, seq, 0, QSA_TENSOR_POOLED, ((qsa_span){0, 3}), &value);
    REFUSED(QSA_E_RANGE, "not within", qsa_seq_read_triples, cache, seq, ((qsa_span){0, 21}), &triple);
    REFUSED(QSA_E_SEQUENCE, "generation 0", qsa_seq_verify_index, cache, none);
    REFUSED(QSA_E_SEQUENCE, "generation 0", qsa_seq_digest, cache, none, &digest);
    qsa_seq all[8];
    for (int i = 1; i < 8; i++)
        mini_ok(qsa_seq_open(cache, &all[i]));
    REFUSED(QSA_E_FULL, "max_sequences", qsa_seq_open, cache, &out);
    REFUSED(QSA_E_FULL, "max_sequences", qsa_seq_fork, cache, seq, 20, &out);
    REFUSED(QSA_E_FULL, "max_sequences", qsa_seq_copy, cache, seq, &out);
    qsa_cache_destroy(cache);
}

static void steps(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    qsa_cache *cache = mini_create(&config);
    qsa_seq seq;
    qsa_step *step;
    qsa_threads *threads;
    mini_ok(qsa_seq_open(cache, &seq));
    mini_ok(qsa_threads_create(1, &threads));
    mini_feed(cache, seq, 0, 20, 1, NULL);
    qsa_entry entry = {.seq = seq, .position = 21, .tokens = 1};
    const float zero[64] = {0};
    const qsa_tensors tensors = {{zero, 16, 8}, {zero, 8, 8}, {zero, 8, 8}, {zero, 8, 8}, {zero, 8, 8}};
    const qsa_output output = {NULL, 0, 0};
    uint32_t groups[2], n;
    REFUSED(QSA_E_ARGUMENT, "no entry", qsa_step_begin, cache, &entry, 0, &step);
    REFUSED(QSA_E_HOLE, "expected position 20", qsa_step_begin, cache, &entry, 1, &step);
    entry.position = 19;
    REFUSED(QSA_E_STORED, "already stored", qsa_step_begin, cache, &entry, 1, &step);
    entry.position = 20;
    entry.tokens = 513;
    REFUSED(QSA_E_LIMIT, "max_step_tokens", qsa_step_begin, cache, &entry, 1, &step);
    entry.tokens = 1;
    REFUSED(QSA_E_ORDER, "no step is open", qsa_layer_begin, NULL, 0, &tensors, &output);
    REFUSED(QSA_E_ORDER, "no layer", qsa_layer_phase, NULL, 0, 0, 1);
    REFUSED(QSA_E_ORDER, "no step is open", qsa_step_layer, NULL, 0, &tensors, &output);
    REFUSED(QSA_E_ORDER, "no step is open", qsa_step_commit, NULL, NULL);
    REFUSED(QSA_E_ORDER, "no finished layer", qsa_step_selection, NULL, 0, groups, &n);
    REFUSED(QSA_E_ARGUMENT, "pool is NULL", qsa_threads_layer, NULL, NULL, 0, &tensors, &output);
    REFUSED(QSA_E_ARGUMENT, "work is NULL", qsa_threads_run, threads, NULL, NULL);
    mini_ok(qsa_step_begin(cache, &entry, 1, &step));
    REFUSED(QSA_E_BUSY, "a step is open", qsa_seq_close, cache, seq);
    REFUSED(QSA_E_ARGUMENT, "layer 3 of 3", qsa_threads_layer, threads, step, 3, &tensors, &output);
    REFUSED(QSA_E_ORDER, "layer 0 is missing", qsa_step_commit, step, NULL);
    const float infinite[64] = {1.0f / 0.0f};
    const qsa_tensors bad = {{zero, 16, 8}, {infinite, 8, 8}, {zero, 8, 8}, {zero, 8, 8}, {zero, 8, 8}};
    mini_ok(qsa_step_begin(cache, &entry, 1, &step));
    REFUSED(QSA_E_NONFINITE, "token 0: k", qsa_step_layer, step, 1, &bad, &output);
    REFUSED(QSA_E_NONFINITE, "token 0: k", qsa_step_commit, step, NULL);
    qsa_threads_destroy(threads);
    qsa_cache_destroy(cache);
}

/* ---- the host's callbacks ---- */

typedef struct faulty {
    mini_bytes bytes;
    qsa_status status; /* of call number fail_at, from 1 */
    uint32_t calls, fail_at;
    qsa_writer writer;
    qsa_reader reader;
} faulty;

static qsa_status write_until(void *context, const void *bytes, size_t size)
{
    faulty *f = context;
    return ++f->calls == f->fail_at ? f->status : f->writer.write(f->writer.context, bytes, size);
}

static qsa_status read_until(void *context, void *bytes, size_t size)
{
    faulty *f = context;
    return ++f->calls == f->fail_at ? f->status : f->reader.read(f->reader.context, bytes, size);
}

/* Whatever a callback returns, at whatever call: the detail is about this call, and names the status. */
static void failing_readers_and_writers(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    qsa_cache *cache = mini_create(&config);
    qsa_seq seq;
    qsa_snapshot snapshot;
    mini_ok(qsa_seq_open(cache, &seq));
    mini_feed(cache, seq, 0, 20, 1, NULL);
    const size_t large = 3 << 20; /* beyond any buffer of the writer: more than one call */
    uint8_t *data = test_alloc(large, 1);
    const qsa_section section = {1, data, large};
    faulty whole = {0};
    whole.writer = mini_writer(&whole.bytes);
    const qsa_writer writer = {write_until, &whole};
    mini_ok(qsa_snapshot_write(cache, &seq, 1, &section, 1, MODEL, &writer));
    const uint32_t writes = whole.calls;
    assert_true(writes > 1);
    for (int s = 1; s < QSA_STATUS_COUNT; s++)
        for (whole.fail_at = 1; whole.fail_at <= writes; whole.fail_at++) {
            mini_bytes none = {0};
            whole.calls = 0;
            whole.status = (qsa_status)s;
            whole.writer = mini_writer(&none);
            REFUSED((qsa_status)s, qsa_status_name((qsa_status)s), qsa_snapshot_write, cache, &seq, 1, &section, 1,
                    MODEL, &writer);
            mini_free(&none);
        }
    const qsa_reader reader = {read_until, &whole};
    whole.fail_at = whole.calls = 0;
    whole.reader = mini_reader(&whole.bytes);
    mini_ok(qsa_snapshot_inspect(&reader, &snapshot));
    qsa_snapshot_free(&snapshot);
    const uint32_t reads = whole.calls;
    for (uint32_t at = 1; at <= reads; at++) {
        whole.status = (qsa_status)(1 + at % (QSA_STATUS_COUNT - 1));
        whole.fail_at = at;
        whole.calls = 0;
        whole.reader = mini_reader(&whole.bytes);
        REFUSED(whole.status, qsa_status_name(whole.status), qsa_snapshot_read, cache, MODEL, &reader, &snapshot);
        whole.calls = 0;
        whole.reader = mini_reader(&whole.bytes);
        REFUSED(whole.status, qsa_status_name(whole.status), qsa_snapshot_inspect, &reader, &snapshot);
    }
    free(data);
    mini_free(&whole.bytes);
    qsa_cache_destroy(cache);
}

/* The allocator fails at every call of everything that allocates. */
static void failing_allocators(void **state)
{
    (void)state;
    world_memory memory = {0};
    const qsa_allocator allocator = world_allocator(&memory);
    qsa_config config = mini_config();
    config.allocator = &allocator;
    qsa_cache *cache;
    qsa_seq seq;
    uint64_t digest;
    for (uint64_t at = 1;; at++) {
        memory.calls = 0;
        memory.fail_at = at;
        leave_a_detail();
        const qsa_status status = qsa_cache_create(&config, &cache);
        if (status == QSA_OK)
            break;
        world_refused(QSA_E_MEMORY, "no memory", status);
    }
    memory.fail_at = 0;
    mini_ok(qsa_seq_open(cache, &seq));
    mini_feed(cache, seq, 0, 20, 1, NULL);
    mini_bytes bytes = {0}, none = {0};
    const qsa_writer writer = mini_writer(&bytes), other = mini_writer(&none);
    mini_ok(qsa_snapshot_write(cache, &seq, 1, NULL, 0, MODEL, &writer));
    int refusals = 0;
    for (uint64_t at = 1; at < 12; at++) {
        qsa_snapshot snapshot;
        const qsa_reader reader = mini_reader(&bytes);
        memory.calls = 0;
        memory.fail_at = at;
        leave_a_detail();
        qsa_status status = qsa_snapshot_read(cache, MODEL, &reader, &snapshot);
        if (status == QSA_OK) {
            mini_ok(qsa_seq_close(cache, snapshot.sequences[0]));
            qsa_snapshot_free(&snapshot);
        } else {
            world_refused(QSA_E_MEMORY, "no memory", status);
            refusals++;
        }
    }
    assert_true(refusals > 5);
    for (uint64_t at = 1; at <= 2; at++) {
        memory.calls = 0;
        memory.fail_at = at;
        REFUSED(QSA_E_MEMORY, "no memory", qsa_snapshot_write, cache, &seq, 1, NULL, 0, MODEL, &other);
    }
    memory.calls = 0;
    memory.fail_at = 1;
    REFUSED(QSA_E_MEMORY, "no memory", qsa_seq_digest, cache, seq, &digest);
    memory.calls = 0;
    REFUSED(QSA_E_MEMORY, "no memory", qsa_seq_verify_index, cache, seq);
    memory.fail_at = 0;
    mini_free(&bytes);
    mini_free(&none);
    qsa_cache_destroy(cache);
}

static void files(void **state)
{
    (void)state;
    const qsa_config config = mini_config();
    qsa_cache *cache = mini_create(&config);
    qsa_seq seq;
    qsa_snapshot snapshot;
    const char *path = "/tmp/no-such-folder/x";
    mini_ok(qsa_seq_open(cache, &seq));
    REFUSED(QSA_E_IO, path, qsa_snapshot_save, cache, &seq, 1, NULL, 0, MODEL, path);
    REFUSED(QSA_E_IO, path, qsa_snapshot_load, cache, MODEL, path, &snapshot);
    REFUSED(QSA_E_IO, path, qsa_snapshot_inspect_file, path, &snapshot);
    REFUSED(QSA_E_ARGUMENT, "path is NULL", qsa_snapshot_save, cache, &seq, 1, NULL, 0, MODEL, NULL);
    REFUSED(QSA_E_FORMAT, "magic", qsa_snapshot_load, cache, MODEL, QSA_EXPORTS_FILE, &snapshot);
    qsa_cache_destroy(cache);
}

/* Somebody adds a function and no refusal of it here. */
static void every_function_was_refused(void **state)
{
    (void)state;
    static const char *const no_status[] = {"qsa_cache_destroy", "qsa_cache_free_tokens", "qsa_cache_isa",
                                            "qsa_config_init",   "qsa_device_close",      "qsa_error_detail",
                                            "qsa_snapshot_free", "qsa_status_name",       "qsa_step_abort",
                                            "qsa_threads_count", "qsa_threads_destroy",   "qsa_version"};
    FILE *file = fopen(QSA_EXPORTS_FILE, "r");
    assert_non_null(file);
    char symbol[SYMBOL_CHARS];
    while (fscanf(file, "%63s", symbol) == 1) {
        bool known = false;
        for (size_t i = 0; i < sizeof no_status / sizeof *no_status; i++)
            known = known || strcmp(symbol, no_status[i]) == 0;
        for (int i = 0; i < n_tried; i++)
            known = known || strcmp(symbol, tried[i]) == 0;
        if (!known)
            fail_msg("%s is exported, and nothing here makes it fail", symbol);
    }
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_arrays),
        cmocka_unit_test(configurations),
        cmocka_unit_test(verbs),
        cmocka_unit_test(steps),
        cmocka_unit_test(failing_readers_and_writers),
        cmocka_unit_test(failing_allocators),
        cmocka_unit_test(files),
        cmocka_unit_test(every_function_was_refused), /* last */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
