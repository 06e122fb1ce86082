/* Memory: what happens without it, that a warm step takes none, and that nothing is read that was not written. */
#include "poison.h"

#include <math.h>
#include <string.h>

/* ---- the n-th allocation fails ---- */

static void create_without_memory_leaves_nothing(void **state)
{
    (void)state;
    world_memory memory = {.poison = true};
    qsa_allocator allocator = world_allocator(&memory);
    qsa_config config = world_mini();
    config.allocator = &allocator;
    qsa_cache *cache = NULL;
    for (uint64_t n = 1;; n++) {
        memory.calls = 0;
        memory.fail_at = n;
        qsa_status status = qsa_cache_create(&config, &cache);
        if (status == QSA_OK)
            break;
        world_refused(QSA_E_MEMORY, "no memory for", status);
        assert_null(cache);
        assert_int_equal(memory.live_bytes, 0);
        assert_true(n < 100);
    }
    assert_true(memory.calls >= 5); /* tables, three arenas, rotary triples: each of them has failed once */
    memory.fail_at = 0;
    world_batch found = world_batch_open(&config, 40, 1), clean = world_batch_open(&config, 40, 1);
    world_feed(cache, world_open(cache), 0, &found, 0, 40, 0, (world_way){0});
    qsa_cache_destroy(cache);
    assert_int_equal(memory.live_bytes, 0);
    config.allocator = NULL;
    world_solo(&config, 0, &clean, 0, (world_way){0});
    world_same("after the failures", &clean, 0, &found, 0, 40);
    world_batch_close(&found);
    world_batch_close(&clean);
}

typedef qsa_status memory_verb(qsa_cache *cache, qsa_seq seq);

static qsa_status verb_digest(qsa_cache *cache, qsa_seq seq)
{
    uint64_t digest;
    return qsa_seq_digest(cache, seq, &digest);
}

static qsa_status verb_verify(qsa_cache *cache, qsa_seq seq)
{
    return qsa_seq_verify_index(cache, seq);
}

static qsa_status verb_check(qsa_cache *cache, qsa_seq seq)
{
    (void)seq;
    return qsa_cache_check(cache);
}

static qsa_status verb_evict(qsa_cache *cache, qsa_seq seq)
{
    return qsa_seq_evict(cache, seq, 3);
}

static void verbs_without_memory_change_nothing(void **state)
{
    (void)state;
    static memory_verb *const verbs[] = {verb_digest, verb_verify, verb_check, verb_evict};
    world_memory memory = {0};
    qsa_allocator allocator = world_allocator(&memory);
    qsa_config config = world_mini();
    config.allocator = &allocator;
    world_batch batch = world_batch_open(&config, 40, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &batch, 0, 40, 0, (world_way){0});
    for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++) {
        uint64_t digest = world_digest(cache, seq), live = memory.live_bytes;
        for (uint64_t n = 1;; n++) {
            memory.calls = 0;
            memory.fail_at = n;
            qsa_status status = verbs[v](cache, seq);
            memory.fail_at = 0;
            assert_int_equal(memory.live_bytes, live);
            if (status == QSA_OK)
                break;
            world_refused(QSA_E_MEMORY, "no memory for", status);
            assert_int_equal(world_digest(cache, seq), digest);
            world_ok(qsa_cache_check(cache));
            assert_true(n < 100);
        }
    }
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

static void warm_step_allocates_nothing(void **state)
{
    (void)state;
    world_memory memory = {0};
    qsa_allocator allocator = world_allocator(&memory);
    qsa_config config = world_mini();
    config.allocator = &allocator;
    world_batch batch = world_batch_open(&config, 200, 1);
    qsa_cache *cache = world_create(&config);
    uint64_t calls = memory.calls;
    qsa_seq seq = world_open(cache), other;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t at = 0; at < 200; at += 40) {
            qsa_entry entry = {.seq = seq, .position = at, .tokens = 40};
            qsa_step *step;
            world_ok(qsa_step_begin(cache, &entry, 1, &step)); /* dropped halfway, then in earnest */
            world_ok(world_layers(step, &batch, at, 40, (world_way){.parts = round}));
            qsa_step_abort(step);
            world_ok(qsa_step_begin(cache, &entry, 1, &step));
            world_ok(world_layers(step, &batch, at, 40, (world_way){.parts = round}));
            world_ok(qsa_step_commit(step, NULL));
            world_ok(qsa_seq_fork(cache, seq, at / 2, &other));
            world_ok(qsa_seq_close(cache, other));
        }
        world_ok(qsa_seq_rewind(cache, seq, 0));
    }
    world_ok(qsa_cache_compact(cache));
    assert_int_equal(memory.calls, calls);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* ---- poison ---- */

/* Fresh memory is NaN, and so is before every step whatever is dead: free pages, slots and lanes that no token has,
 * working memory. */
static void poisoned_run(const qsa_config *base, uint32_t tokens, uint32_t chunk, world_way way)
{
    world_memory memory = {.poison = true};
    qsa_allocator allocator = world_allocator(&memory);
    qsa_config config = *base;
    world_batch clean = world_batch_open(&config, tokens, 1), found = world_batch_open(&config, tokens, 1);
    uint64_t digest = world_solo(&config, 0, &clean, 0, (world_way){0});
    config.allocator = &allocator;
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache), gone;
    for (uint32_t at = 0; at < tokens; at += chunk) {
        uint32_t n = tokens - at < chunk ? tokens - at : chunk;
        poison_dead(cache);
        world_feed(cache, seq, at, &found, at, n, 0, way);
        if (at % 5 == 0 && config.max_sequences > 1) { /* pages that another sequence has used and left */
            gone = world_open(cache);
            world_feed(cache, gone, 0, &clean, 0, n, 0, way);
            world_ok(qsa_seq_close(cache, gone));
        }
    }
    for (uint32_t i = 0; i < tokens * config.layers * config.q_heads * config.head_dim; i++)
        assert_true(isfinite(found.out[i]));
    world_solo(base, 0, &clean, 0, (world_way){0});
    world_same("poisoned", &clean, 0, &found, 0, tokens);
    assert_int_equal(world_digest(cache, seq), digest);
    qsa_cache_destroy(cache);
    assert_int_equal(memory.live_bytes, 0);
    world_batch_close(&clean);
    world_batch_close(&found);
}

static void nothing_is_read_that_was_not_written(void **state)
{
    (void)state;
    static const uint32_t ratios[] = {1, 2, 4, 8, 64};
    for (size_t r = 0; r < sizeof ratios / sizeof *ratios; r++)
        for (int kind = 0; kind < 2; kind++)
            for (uint32_t parts = 0; parts < 6; parts += 2) {
                qsa_config config = world_mini();
                config.ratio = ratios[r];
                config.budget = 2 * ratios[r];
                config.kv_type = (qsa_kv_type)kind;
                config.profile = (qsa_profile)kind;
                config.max_step_tokens = 200;
                config.max_parts = 3;
                poisoned_run(&config, 130, 1, (world_way){.parts = parts});
                poisoned_run(&config, 200, 23, (world_way){.parts = parts});
            }
}

/* 729 rows after a run that used 2,051. */
static void short_rows_after_long_ones_read_no_leftovers(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.max_sequences = 2;
    world_batch longest = world_batch_open(&config, 2055, 1), clean = world_batch_open(&config, 729, 7),
                found = world_batch_open(&config, 729, 7);
    qsa_cache *cache = world_create(&config);
    world_feed(cache, world_open(cache), 0, &longest, 0, 2055, 0, (world_way){0});
    poison_dead(cache);
    world_feed(cache, world_open(cache), 0, &found, 0, 729, 243, (world_way){0});
    world_solo(&config, 0, &clean, 0, (world_way){0});
    world_same("729 rows", &clean, 0, &found, 0, 729);
    qsa_cache_destroy(cache);
    world_batch_close(&longest);
    world_batch_close(&clean);
    world_batch_close(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_without_memory_leaves_nothing),
        cmocka_unit_test(verbs_without_memory_change_nothing),
        cmocka_unit_test(warm_step_allocates_nothing),
        cmocka_unit_test(nothing_is_read_that_was_not_written),
        cmocka_unit_test(short_rows_after_long_ones_read_no_leftovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
