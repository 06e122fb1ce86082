/* Several sequences in one cache, one slot used after another: nobody sees another's state. */
#include "world.h"

#include "cache/cache.h"

#include <stdlib.h>
#include <string.h>

/* ---- sequences that share positions ---- */

enum { LIVE = 4 };
static const uint32_t lengths[LIVE] = {2100, 7, 900, 2600};

/* Four live sequences with a token at every position of each other's, appended in turn: each list is the solo one, and
 * no page belongs to two of them. */
static void live_sequences_never_see_each_other(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.max_sequences = LIVE;
    for (int order = 0; order < 2; order++) {
        qsa_cache *cache = world_create(&config);
        qsa_seq seq[LIVE];
        world_batch found[LIVE];
        for (uint32_t s = 0; s < LIVE; s++) {
            seq[s] = world_open(cache);
            found[s] = world_batch_open(&config, lengths[s], 1 + s * 10000);
        }
        for (uint32_t at = 0; at < 2600; at += 300)
            for (uint32_t i = 0; i < LIVE; i++) {
                uint32_t s = order ? LIVE - 1 - i : i;
                if (at < lengths[s])
                    world_feed(cache, seq[s], at, &found[s], at, lengths[s] - at < 300 ? lengths[s] - at : 300, 0,
                               (world_way){0});
            }
        for (uint32_t s = 0; s < LIVE; s++) {
            world_batch alone = world_batch_open(&config, lengths[s], 1 + s * 10000);
            uint64_t digest = world_solo(&config, 0, &alone, 0, (world_way){0});
            world_same("alone", &alone, 0, &found[s], 0, lengths[s]);
            assert_int_equal(world_digest(cache, seq[s]), digest);
            world_batch_close(&alone);
            const qsa_sequence *one = &cache->sequences[seq[s].slot];
            for (uint32_t p = 0; p < one->n_pages; p++)
                assert_int_equal(cache->references[*qsa_sequence_page(one, p)], 1);
        }
        qsa_cache_destroy(cache);
        for (uint32_t s = 0; s < LIVE; s++)
            world_batch_close(&found[s]);
    }
}

/* Two forks of a prefix of 1,000 tokens, appended in turn. */
static void forks_of_a_prefix_go_their_own_ways(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.max_sequences = 3;
    qsa_cache *cache = world_create(&config);
    qsa_seq seq[2];
    world_batch found[2], alone[2];
    for (uint32_t s = 0; s < 2; s++) {
        found[s] = world_batch_open(&config, 2100, 1);
        alone[s] = world_batch_open(&config, 2100, 1);
        for (uint32_t t = 1000; t < 2100; t++) {
            world_batch_set(&found[s], t, 10000 * (s + 1) + t);
            world_batch_set(&alone[s], t, 10000 * (s + 1) + t);
        }
    }
    seq[0] = world_open(cache);
    world_feed(cache, seq[0], 0, &found[0], 0, 1000, 0, (world_way){0});
    world_ok(qsa_seq_fork(cache, seq[0], 1000, &seq[1]));
    for (uint32_t at = 1000; at < 2100; at += 110)
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t s = at / 110 % 2 ? i : 1 - i;
            world_feed(cache, seq[s], at, &found[s], at, 110, 0, (world_way){0});
        }
    for (uint32_t s = 0; s < 2; s++) {
        uint64_t digest = world_solo(&config, 0, &alone[s], 0, (world_way){0});
        world_same("after the fork", &alone[s], 1000, &found[s], 1000, 1100);
        assert_int_equal(world_digest(cache, seq[s]), digest);
        world_batch_close(&alone[s]);
        world_batch_close(&found[s]);
    }
    qsa_cache_destroy(cache);
}

/* K, V and index have one length, through every change of two sequences. */
static void lengths_never_part(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.max_sequences = 2;
    config.max_step_tokens = 3000;
    qsa_cache *cache = world_create(&config);
    const qsa_seq a = world_open(cache), b = world_open(cache);
    qsa_seq_info info;
    world_batch batch = world_batch_open(&config, 3500, 1);
    world_feed(cache, a, 0, &batch, 0, 3000, 0, (world_way){0});
    world_feed(cache, b, 0, &batch, 0, 10, 0, (world_way){0});
    world_ok(qsa_seq_close(cache, b));
    world_feed(cache, a, 3000, &batch, 3000, 500, 0, (world_way){0});
    world_ok(qsa_seq_query(cache, a, &info));
    assert_true(info.tokens == 3500 && info.groups == 875);
    world_ok(qsa_seq_rewind(cache, a, 2047));
    world_ok(qsa_seq_query(cache, a, &info));
    assert_true(info.tokens == 2047 && info.groups == 511);
    world_feed(cache, a, 2047, &batch, 2047, 5, 0, (world_way){0});
    world_ok(qsa_seq_query(cache, a, &info));
    assert_true(info.tokens == 2052 && info.groups == 513 && batch.n_groups[2051] == 512);
    world_ok(qsa_seq_verify_index(cache, a));
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* Others join a long sequence that decodes: what it stored never changes, what it gives is the solo result. */
static void joining_disturbs_nobody(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.max_sequences = 5;
    world_batch alone = world_batch_open(&config, 3050, 1), found = world_batch_open(&config, 3050, 1),
                others = world_batch_open(&config, 200, 9000);
    world_solo(&config, 0, &alone, 0, (world_way){0});
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache), guest[4];
    float before[750 * 4], after[750 * 4];
    world_feed(cache, seq, 0, &found, 0, 3000, 0, (world_way){0});
    world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, 3000}, before));
    for (uint32_t t = 0; t < 50; t++) {
        if (t % 12 == 0 && t < 48)
            guest[t / 12] = world_open(cache);
        if (t < 48)
            world_feed(cache, guest[t / 12], t % 12 * 17, &others, 0, 17, 0, (world_way){0});
        world_feed(cache, seq, 3000 + t, &found, 3000 + t, 1, 0, (world_way){.parts = 2});
    }
    world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, 3000}, after));
    assert_memory_equal(before, after, sizeof before);
    world_same("joined", &alone, 0, &found, 0, 3050);
    qsa_cache_destroy(cache);
    world_batch_close(&alone);
    world_batch_close(&found);
    world_batch_close(&others);
}

/* One slot, used by one sequence after another, long and short: each as in a fresh cache. */
static void slot_that_is_used_again_remembers_nothing(void **state)
{
    (void)state;
    static const uint32_t runs[] = {16, 3273, 16, 2300, 2051, 16};
    qsa_config config = world_narrow();
    config.capacity_tokens = 3328;
    qsa_cache *cache = world_create(&config);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        uint32_t id = runs[i] == 16 ? 77 : 1000 * (uint32_t)i;
        world_batch found = world_batch_open(&config, runs[i], id), alone = world_batch_open(&config, runs[i], id);
        uint64_t digest = world_solo(&config, 0, &alone, 0, (world_way){0});
        qsa_seq seq = world_open(cache);
        assert_int_equal(seq.slot, 0);
        world_feed(cache, seq, 0, &found, 0, runs[i], 1024, (world_way){0});
        world_same("a used slot", &alone, 0, &found, 0, runs[i]);
        assert_int_equal(world_digest(cache, seq), digest);
        world_ok(qsa_seq_close(cache, seq));
        world_batch_close(&found);
        world_batch_close(&alone);
    }
    qsa_cache_destroy(cache);
}

/* ---- ties, again and again ---- */

/* Keys and queries of few values, so that most scores tie: the same list and the same bits every time. */
static void quantise(world_batch *batch)
{
    for (uint32_t t = 0; t < batch->tokens; t++)
        for (int tensor = WORLD_INDEX_Q; tensor <= WORLD_RAW_KEY; tensor++) {
            uint32_t width;
            float *x = world_input(batch, tensor, t, 0, &width);
            for (uint32_t i = 0; i < width; i++)
                x[i] = i >= batch->config.rotary_dim ? (float)((int)(golden_bits64(t / 4 % 3, i) % 3) - 1) : 0;
        }
}

static void tied_lists_are_the_same_every_time(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.index_dim = 8;
    config.max_parts = 16;
    config.max_sequences = 8;
    config.capacity_tokens = 8 * 2112;
    world_batch first = world_batch_open(&config, 2060, 1), found = world_batch_open(&config, 2060, 1);
    quantise(&first);
    quantise(&found);
    world_solo(&config, 0, &first, 0, (world_way){0});
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &found, 0, 2060, 0, (world_way){0});
    for (uint32_t round = 0; round < 100; round++) {
        static const uint32_t parts[] = {1, 2, 8, 16};
        world_ok(qsa_seq_rewind(cache, seq, 2052));
        world_feed(cache, seq, 2052, &found, 2052, 8, round % 2 ? 8 : 1, (world_way){.parts = parts[round % 4]});
        world_same("tied", &first, 2052, &found, 2052, 8);
    }
    qsa_seq copies[7]; /* a batch of eight */
    qsa_entry entries[8];
    world_batch batch = world_batch_open(&config, 8, 1);
    world_ok(qsa_seq_rewind(cache, seq, 2059));
    for (uint32_t i = 0; i < 7; i++)
        world_ok(qsa_seq_fork(cache, seq, 2059, &copies[i]));
    for (uint32_t i = 0; i < 8; i++) {
        entries[i] = (qsa_entry){.seq = i < 7 ? copies[i] : seq, .position = 2059, .tokens = 1};
        world_batch_set(&batch, i, 1 + 2059);
    }
    for (uint32_t i = 0; i < 8; i++)
        for (int tensor = 0; tensor < WORLD_INPUTS; tensor++) {
            uint32_t width;
            const float *x = world_input(&first, tensor, 2059, 0, &width);
            memcpy(world_input(&batch, tensor, i, 0, NULL), x, width * sizeof *x);
        }
    world_step(cache, entries, 8, &batch, 0, (world_way){.parts = 3}, NULL);
    for (uint32_t i = 0; i < 8; i++)
        world_same("tied, in a batch of eight", &first, 2059, &batch, i, 1);
    qsa_cache_destroy(cache);
    world_batch_close(&first);
    world_batch_close(&found);
    world_batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_sequences_never_see_each_other),
        cmocka_unit_test(forks_of_a_prefix_go_their_own_ways),
        cmocka_unit_test(lengths_never_part),
        cmocka_unit_test(joining_disturbs_nobody),
        cmocka_unit_test(slot_that_is_used_again_remembers_nothing),
        cmocka_unit_test(tied_lists_are_the_same_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
