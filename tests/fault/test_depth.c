/* Depth: a quarter of a million tokens of two dimensions, past every 16- and 17-bit edge. Work is counted, not timed.
 */
#include "world.h"

#include <stdlib.h>
#include <string.h>

static qsa_config deep(uint64_t tokens)
{
    qsa_config config = world_narrow();
    config.head_dim = config.index_dim = config.rotary_dim = 2;
    config.sections[0] = 1;
    config.sections[1] = 0;
    config.capacity_tokens = tokens;
    config.max_step_tokens = 8192;
    return config;
}

/* One cache that the tests take deeper and deeper. Token values follow from the position. */
typedef struct well {
    qsa_config config;
    qsa_cache *cache;
    qsa_seq seq;
    uint32_t tokens;
} well;

enum { BOTTOM = 262209 };

static well the_well;

static void step_down(uint32_t n, bool output, world_batch *batch)
{
    qsa_step *step;
    qsa_entry entry = {.seq = the_well.seq, .position = the_well.tokens, .tokens = n};
    qsa_tensors tensors = world_tensors(batch, 0, 0);
    qsa_output out = output ? world_output(batch, 0, 0) : (qsa_output){0};
    world_ok(qsa_step_begin(the_well.cache, &entry, 1, &step));
    world_ok(qsa_step_layer(step, 0, &tensors, &out));
    for (uint32_t t = 0; output && t < n; t++)
        world_ok(qsa_step_selection(step, t, batch->groups + (size_t)t * 512, &batch->n_groups[t]));
    world_ok(qsa_step_commit(step, NULL));
    the_well.tokens += n;
}

static void fill_to(uint32_t tokens)
{
    while (the_well.tokens < tokens) {
        uint32_t n = tokens - the_well.tokens < 8192 ? tokens - the_well.tokens : 8192;
        world_batch batch = world_batch_open(&the_well.config, n, the_well.tokens);
        step_down(n, false, &batch);
        world_batch_close(&batch);
    }
}

static int open_well(void **state)
{
    (void)state;
    the_well = (well){.config = deep(BOTTOM)};
    if (qsa_cache_create(&the_well.config, &the_well.cache) != QSA_OK)
        return -1;
    return qsa_seq_open(the_well.cache, &the_well.seq) == QSA_OK ? 0 : -1;
}

static int close_well(void **state)
{
    (void)state;
    qsa_cache_destroy(the_well.cache);
    return 0;
}

static qsa_counters counters_of(qsa_cache *cache)
{
    qsa_counters counters;
    world_ok(qsa_cache_counters(cache, &counters));
    return counters;
}

/* One decode step: at most 2,051 rows per kv head, at most one new pooled key, one layout; only the scan grows. */
static void decode_costs(uint32_t depth)
{
    fill_to(depth - 1);
    qsa_counters before = counters_of(the_well.cache);
    world_batch batch = world_batch_open(&the_well.config, 1, the_well.tokens);
    step_down(1, true, &batch);
    qsa_counters after = counters_of(the_well.cache);
    assert_int_equal(after.k_rows_read - before.k_rows_read, 2048 + depth % 4);
    assert_int_equal(after.keys_pooled - before.keys_pooled, depth % 4 == 0);
    assert_int_equal(after.groups_scored - before.groups_scored, depth / 4);
    assert_int_equal(after.groups_chosen - before.groups_chosen, 512);
    assert_int_equal(after.layouts - before.layouts, 1);
    assert_int_equal(after.tokens - before.tokens, 1);
    assert_int_equal(after.steps - before.steps, 1);
    assert_int_equal(after.pages_copied, before.pages_copied);
    assert_true(after.pages_taken - before.pages_taken <= 1);
    world_batch_close(&batch);
}

static void decode_reads_no_more_at_depth(void **state)
{
    (void)state;
    decode_costs(8192);
    decode_costs(8195);
    decode_costs(65536);
    decode_costs(65539);
}

/* 65,535, 65,536 and 65,537 groups; every pooled key written once, the last of them right. */
static void groups_past_sixteen_bits(void **state)
{
    (void)state;
    for (uint32_t tokens = 262140; tokens <= 262148; tokens += 4) {
        decode_costs(tokens);
        assert_int_equal(counters_of(the_well.cache).keys_pooled, tokens / 4);
        float raw[8], found[2], expected[2];
        const int64_t first = tokens - 4;
        const qsa_triple triple = {(int32_t)first, (int32_t)first, (int32_t)first};
        qsa_rotary rotary;
        world_ok(qsa_rotary_init(&the_well.config, &rotary));
        world_ok(qsa_seq_read(the_well.cache, the_well.seq, 0, QSA_TENSOR_RAW, (qsa_span){first, tokens}, raw));
        world_ok(qsa_pool_keys(&the_well.config, &rotary, raw, &triple, 1, NULL, expected));
        world_ok(qsa_seq_read(the_well.cache, the_well.seq, 0, QSA_TENSOR_POOLED, (qsa_span){first, tokens}, found));
        test_same_floats("the last pooled key", expected, found, 2);
    }
    world_ok(qsa_seq_verify_index(the_well.cache, the_well.seq));
}

/* A chunk of 4,096 queries that ends at 65,552 groups and a tail of one: their members are the best, seen now and then.
 */
static void chunk_of_queries_at_the_bottom(void **state)
{
    (void)state;
    enum { QUERIES = 4096 };
    the_well.tokens = 262209 - QUERIES;
    world_ok(qsa_seq_rewind(the_well.cache, the_well.seq, the_well.tokens));
    world_batch batch = world_batch_open(&the_well.config, QUERIES, the_well.tokens);
    const uint32_t first = the_well.tokens;
    step_down(QUERIES, true, &batch);
    const uint32_t groups = the_well.tokens / 4;
    float *pooled = test_alloc(groups * 2, sizeof *pooled), *scores = test_alloc(groups, sizeof *scores);
    uint32_t expected[512], n, row[2052];
    qsa_rotary rotary;
    world_ok(qsa_rotary_init(&the_well.config, &rotary));
    world_ok(qsa_seq_read(the_well.cache, the_well.seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, groups * 4}, pooled));
    for (uint32_t t = 0; t < QUERIES; t += 315) {
        const int32_t p = (int32_t)(first + t);
        float cos, sin, query[2];
        world_ok(qsa_rotary_cos_sin(&rotary, (qsa_triple){p, p, p}, &cos, &sin));
        world_ok(qsa_norm_rotate(world_input(&batch, WORLD_INDEX_Q, t, 0, NULL), 1, 2, NULL, the_well.config.eps, 1,
                                 &cos, &sin, QSA_PROFILE_BF16, query));
        world_ok(qsa_score(query, 1, 2, pooled, (first + t + 1) / 4, scores));
        world_ok(qsa_select(scores, (first + t + 1) / 4, 512, expected, &n));
        assert_int_equal(batch.n_groups[t], n);
        assert_memory_equal(expected, batch.groups + (size_t)t * 512, n * sizeof *expected);
    }
    world_ok(qsa_selected_tokens(batch.groups + (size_t)(QUERIES - 1) * 512, 512, 4, 262209, row, &n));
    assert_true(n == 2049 && row[n - 1] == 262208);
    free(pooled);
    free(scores);
    world_batch_close(&batch);
}

/* The last slot is used, then the cache is full; a rewind makes room again. */
static void capacity_is_exact(void **state)
{
    (void)state;
    fill_to((BOTTOM + 63) / 64 * 64);
    qsa_step *step;
    qsa_entry entry = {.seq = the_well.seq, .position = the_well.tokens, .tokens = 1};
    assert_int_equal(qsa_cache_free_tokens(the_well.cache), 0);
    world_refused(QSA_E_FULL, "0 are free", qsa_step_begin(the_well.cache, &entry, 1, &step));
    world_ok(qsa_seq_rewind(the_well.cache, the_well.seq, 131328));
    the_well.tokens = 131328;
    decode_costs(131329);
    world_ok(qsa_cache_check(the_well.cache));
}

/* What was asked for is what there is: 49,152 tokens, no fewer. */
static void capacity_is_the_one_that_was_asked_for(void **state)
{
    (void)state;
    qsa_config config = deep(49152);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    qsa_step *step;
    world_batch batch = world_batch_open(&config, 8192, 1);
    for (uint32_t at = 0; at < 49152; at += 8192) {
        qsa_entry entry = {.seq = seq, .position = at, .tokens = 8192};
        qsa_tensors tensors = world_tensors(&batch, 0, 0);
        const qsa_output nowhere = {0};
        world_ok(qsa_step_begin(cache, &entry, 1, &step));
        world_ok(qsa_step_layer(step, 0, &tensors, &nowhere));
        world_ok(qsa_step_commit(step, NULL));
    }
    qsa_entry one = {.seq = seq, .position = 49152, .tokens = 1};
    world_refused(QSA_E_FULL, "needs 1 pages", qsa_step_begin(cache, &one, 1, &step));
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, seq, &info));
    assert_true(info.tokens == 49152 && info.groups == 12288);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* 512 queries are one layout and one pass per phase, not 512. */
static void layouts_do_not_grow_with_queries_or_layers(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    world_batch batch = world_batch_open(&config, 512, 1);
    qsa_cache *cache = world_create(&config);
    world_feed(cache, world_open(cache), 0, &batch, 0, 512, 0, (world_way){0});
    qsa_counters counters = counters_of(cache);
    assert_true(counters.layouts == 1 && counters.steps == 1 && counters.tokens == 512);
    assert_int_equal(counters.keys_pooled, 3 * 128);
    assert_int_equal(counters.pages_taken, 8);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_reads_no_more_at_depth),
        cmocka_unit_test(groups_past_sixteen_bits),
        cmocka_unit_test(chunk_of_queries_at_the_bottom),
        cmocka_unit_test(capacity_is_exact),
        cmocka_unit_test(capacity_is_the_one_that_was_asked_for),
        cmocka_unit_test(layouts_do_not_grow_with_queries_or_layers),
    };
    return cmocka_run_group_tests(tests, open_well, close_well);
}
