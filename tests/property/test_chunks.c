/* However a prompt is cut, whatever runs the parts, and whoever else is in the step: the same bits and the same state.
 */
#include "world.h"

#include <string.h>

enum { TOKENS = 300 };

/* One run in one step, one part: what all others must give. */
static uint64_t reference(const qsa_config *config, world_batch *batch)
{
    return world_solo(config, 5, batch, 0, (world_way){0});
}

static void same_run(const char *what, const qsa_config *config, const world_batch *expected, uint64_t digest,
                     uint32_t chunk, world_way way)
{
    world_batch found = world_batch_open(config, expected->tokens, 1);
    uint64_t found_digest = world_solo(config, 5, &found, chunk, way);
    world_same(what, expected, 0, &found, 0, expected->tokens);
    if (digest != found_digest)
        fail_msg("%s, chunks of %u, %u parts: another state", what, chunk, way.parts);
    world_batch_close(&found);
}

static void every_chunk_size_gives_the_run_in_one_go(void **state)
{
    (void)state;
    for (int kind = 0; kind < QSA_KV_TYPE_COUNT; kind++) {
        qsa_config config = world_mini();
        world_kv_type(&config, kind);
        config.profile = (qsa_profile)(kind % QSA_PROFILE_COUNT);
        config.layers = 2;
        config.max_step_tokens = TOKENS;
        world_batch batch = world_batch_open(&config, TOKENS, 1);
        uint64_t digest = reference(&config, &batch);
        for (uint32_t chunk = 1; chunk < TOKENS; chunk += chunk < 70 ? 1 : 17)
            same_run("chunk", &config, &batch, digest, chunk, (world_way){0});
        world_batch_close(&batch);
    }
}

/* Heads of several chunks of dimensions: parts share a row by dimensions too. */
static void parts_that_share_a_row_give_the_same(void **state)
{
    (void)state;
    static const uint32_t parts[] = {2, 3, 5, 8, 16, 61}; /* 5 of 2 rows: a part has pieces of both */
    for (int kind = 0; kind < QSA_KV_TYPE_COUNT; kind++) {
        qsa_config config = world_mini();
        config.q_heads = 6;
        config.kv_heads = 2;
        config.head_dim = 160;
        config.max_parts = 64;
        world_kv_type(&config, kind);
        world_batch batch = world_batch_open(&config, 40, 1);
        uint64_t digest = reference(&config, &batch);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            same_run("shared rows", &config, &batch, digest, 1, (world_way){.parts = parts[p]});
        world_batch_close(&batch);
    }
}

/* Many groups of which a range tells only the best: parts that share a query's pages, for one token and for a few. */
static void parts_that_share_a_scan_give_the_same(void **state)
{
    (void)state;
    enum { HISTORY = 2400, ASKED = 12 };
    static const uint32_t chunks[] = {1, 2, 5};
    qsa_config config = world_mini();
    config.budget = 512;
    config.layers = 1;
    config.max_parts = 64;
    config.capacity_tokens = config.max_step_tokens = 2 * HISTORY;
    world_batch batch = world_batch_open(&config, HISTORY + ASKED, 1);
    world_batch found = world_batch_open(&config, ASKED, 1 + HISTORY);
    const uint64_t digest = reference(&config, &batch);
    qsa_threads *threads;
    world_ok(qsa_threads_create(4, &threads));
    const world_way ways[] = {{.parts = 2}, {.parts = 3}, {.parts = 8}, {.parts = 61}, {.threads = threads}};
    qsa_cache *cache = world_create(&config);
    const qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 5, &batch, 0, HISTORY, 0, (world_way){0});
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            world_feed(cache, seq, 5 + HISTORY, &found, 0, ASKED, chunks[c], ways[w]);
            world_same("shared scan", &batch, HISTORY, &found, 0, ASKED);
            assert_int_equal(world_digest(cache, seq), digest);
            world_ok(qsa_seq_rewind(cache, seq, 5 + HISTORY));
        }
    qsa_cache_destroy(cache);
    qsa_threads_destroy(threads);
    world_batch_close(&batch);
    world_batch_close(&found);
}

static void every_number_of_parts_and_threads_gives_the_same(void **state)
{
    (void)state;
    static const uint32_t parts[] = {1, 2, 3, 8, 61}, chunks[] = {1, 2, 7, 64, 300};
    qsa_config config = world_mini();
    config.layers = 2;
    world_batch batch = world_batch_open(&config, TOKENS, 1);
    uint64_t digest = reference(&config, &batch);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            same_run("parts", &config, &batch, digest, chunks[c], (world_way){.parts = parts[p]});
        for (uint32_t count = 1; count <= 3; count++) {
            qsa_threads *threads;
            world_ok(qsa_threads_create(count, &threads));
            same_run("threads", &config, &batch, digest, chunks[c], (world_way){.threads = threads});
            qsa_threads_destroy(threads);
        }
    }
    world_batch_close(&batch);
}

/* The same position, computed in a resumed chunk: a hundred tokens cut in two at every place, once with a budget that
 * drops groups and once with one that drops none. */
static void every_split_in_two_gives_the_same(void **state)
{
    (void)state;
    static const uint32_t budgets[] = {8, 512};
    for (int b = 0; b < 2; b++) {
        qsa_config config = world_mini();
        config.budget = budgets[b];
        world_batch batch = world_batch_open(&config, 100, 1), found = world_batch_open(&config, 100, 1);
        uint64_t digest = reference(&config, &batch);
        for (uint32_t k = 1; k < 100; k++) {
            qsa_cache *cache = world_create(&config);
            qsa_seq seq = world_open(cache);
            world_feed(cache, seq, 5, &found, 0, k, 0, (world_way){0});
            world_feed(cache, seq, 5 + k, &found, k, 100 - k, 0, (world_way){0});
            world_same("split", &batch, 0, &found, 0, 100);
            assert_int_equal(world_digest(cache, seq), digest);
            qsa_cache_destroy(cache);
        }
        world_batch_close(&batch);
        world_batch_close(&found);
    }
}

/* Ratios and shapes that share nothing with the released one. */
static void other_shapes_do_not_depend_on_chunks_either(void **state)
{
    (void)state;
    static const struct {
        uint32_t ratio, budget, q_heads, kv_heads, head_dim, index_heads, index_dim;
    } shapes[] = {{1, 5, 3, 3, 6, 2, 5},     {2, 8, 34, 1, 4, 1, 4},   {8, 16, 6, 2, 20, 3, 9},
                  {16, 32, 4, 4, 16, 5, 16}, {64, 64, 2, 1, 33, 1, 7}, {4, 260, 8, 2, 12, 4, 32}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        qsa_config config = world_mini();
        config.layers = 1;
        config.ratio = shapes[i].ratio;
        config.budget = shapes[i].budget;
        config.q_heads = shapes[i].q_heads;
        config.kv_heads = shapes[i].kv_heads;
        config.head_dim = shapes[i].head_dim;
        config.index_heads = shapes[i].index_heads;
        config.index_dim = shapes[i].index_dim;
        world_batch batch = world_batch_open(&config, TOKENS, 1);
        uint64_t digest = reference(&config, &batch);
        const oracle_shape shape = world_oracle_shape(&config);
        oracle_run run;
        oracle_open(&run, &shape, 5, 0, 0);
        world_oracle_append(&run, &batch, 0, 0, TOKENS, NULL);
        for (uint32_t t = 0; t < TOKENS; t++)
            if (!world_oracle_agrees(&run, (int)t, &batch, t, 0))
                fail_msg("shape %zu, token %u: not the oracle's", i, t);
        oracle_close(&run);
        same_run("token by token", &config, &batch, digest, 1, (world_way){.parts = 3});
        same_run("chunks of 13", &config, &batch, digest, 13, (world_way){.parts = 5});
        world_batch_close(&batch);
    }
}

/* ---- company ---- */

enum { SEQUENCES = 4 };
static const uint32_t lengths[SEQUENCES] = {210, 7, 90, 300};

/* Several sequences in the same steps, a few tokens of each at a time: each as if it were alone. */
static void sequences_in_one_step_are_as_if_alone(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.layers = 2;
    world_batch alone[SEQUENCES];
    uint64_t digests[SEQUENCES];
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        alone[s] = world_batch_open(&config, lengths[s], 1 + s * 1000);
        digests[s] = world_solo(&config, s * 40, &alone[s], 0, (world_way){0});
    }
    for (int round = 0; round < 4; round++) {
        qsa_cache *cache = world_create(&config);
        qsa_seq seq[SEQUENCES];
        uint32_t fed[SEQUENCES] = {0};
        uint64_t chance = (uint64_t)round;
        for (uint32_t s = 0; s < SEQUENCES; s++)
            seq[s] = world_open(cache);
        for (bool more = true; more;) {
            qsa_entry entries[SEQUENCES];
            uint32_t n = 0, tokens = 0, who[SEQUENCES];
            more = false;
            for (uint32_t i = 0; i < SEQUENCES; i++) {
                uint32_t s = round % 2 ? SEQUENCES - 1 - i : i, take = 1 + world_random(&chance, 9);
                take = take < lengths[s] - fed[s] ? take : lengths[s] - fed[s];
                if (take == 0)
                    continue;
                who[n] = s;
                entries[n++] = (qsa_entry){.seq = seq[s], .position = (int64_t)s * 40 + fed[s], .tokens = take};
                tokens += take;
                more = true;
            }
            if (!more)
                break;
            world_batch batch = world_batch_open(&config, tokens, 1);
            for (uint32_t e = 0, at = 0; e < n; at += entries[e++].tokens)
                for (uint32_t t = 0; t < entries[e].tokens; t++)
                    world_batch_set(&batch, at + t, 1 + who[e] * 1000 + fed[who[e]] + t);
            world_step(cache, entries, n, &batch, 0, (world_way){.parts = (uint32_t)round}, NULL);
            for (uint32_t e = 0, at = 0; e < n; at += entries[e++].tokens) {
                world_same("in company", &alone[who[e]], fed[who[e]], &batch, at, entries[e].tokens);
                fed[who[e]] += entries[e].tokens;
            }
            world_batch_close(&batch);
        }
        for (uint32_t s = 0; s < SEQUENCES; s++)
            assert_int_equal(world_digest(cache, seq[s]), digests[s]);
        qsa_cache_destroy(cache);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++)
        world_batch_close(&alone[s]);
}

/* Other sequences come and go, so that pages lie in any order, the last of the pool among them. */
static void pages_in_any_order_give_the_same(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.capacity_tokens = 16 * QSA_PAGE_TOKENS;
    config.max_sequences = 12;
    world_batch alone = world_batch_open(&config, TOKENS, 1), found = world_batch_open(&config, TOKENS, 1);
    world_batch others = world_batch_open(&config, 70, 5000);
    uint64_t digest = reference(&config, &alone);
    for (uint64_t round = 0; round < 12; round++) {
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache), other[10] = {{0}};
        uint64_t chance = round * 1000;
        for (uint32_t at = 0; at < TOKENS; at += 30) {
            for (int i = 0; i < 4; i++) {
                uint32_t who = world_random(&chance, 5);
                if (other[who].generation != 0) {
                    world_ok(qsa_seq_close(cache, other[who]));
                    other[who] = (qsa_seq){0};
                } else {
                    other[who] = world_open(cache);
                    world_feed(cache, other[who], 0, &others, 0, 66, 0, (world_way){0});
                }
            }
            if (round % 3 == 2)
                world_ok(qsa_cache_compact(cache));
            world_feed(cache, seq, 5 + at, &found, at, 30, 0, (world_way){.parts = 2});
        }
        world_same("pages in any order", &alone, 0, &found, 0, TOKENS);
        assert_int_equal(world_digest(cache, seq), digest);
        world_ok(qsa_seq_verify_index(cache, seq));
        qsa_cache_destroy(cache);
    }
    world_batch_close(&alone);
    world_batch_close(&found);
    world_batch_close(&others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_size_gives_the_run_in_one_go),
        cmocka_unit_test(parts_that_share_a_row_give_the_same),
        cmocka_unit_test(parts_that_share_a_scan_give_the_same),
        cmocka_unit_test(every_number_of_parts_and_threads_gives_the_same),
        cmocka_unit_test(every_split_in_two_gives_the_same),
        cmocka_unit_test(other_shapes_do_not_depend_on_chunks_either),
        cmocka_unit_test(sequences_in_one_step_are_as_if_alone),
        cmocka_unit_test(pages_in_any_order_give_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
