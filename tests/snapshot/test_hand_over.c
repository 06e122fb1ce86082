/* A sequence handed from one cache to another, in the middle of everything. The released budget and ratio over tiny
 * heads, so that what a missing index would change can be seen: below 2,052 tokens nothing is dropped. */
#include "mini.h"
#include "parts.h"
#include "support.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL = 42 };

static mini_bytes saved(const qsa_cache *cache, qsa_seq seq)
{
    mini_bytes bytes = {0};
    qsa_writer writer = mini_writer(&bytes);
    world_ok(qsa_snapshot_write(cache, &seq, 1, NULL, 0, MODEL, &writer));
    return bytes;
}

static qsa_seq loaded(qsa_cache *cache, mini_bytes *bytes)
{
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(bytes);
    world_ok(qsa_snapshot_read(cache, MODEL, &reader, &snapshot));
    qsa_seq seq = snapshot.sequences[0];
    qsa_snapshot_free(&snapshot);
    world_ok(qsa_cache_check(cache));
    return seq;
}

/* A sequence of the first n tokens of a batch; their queries are not run. */
static qsa_seq fed(qsa_cache *cache, world_batch *batch, uint32_t n)
{
    qsa_seq seq = world_open(cache);
    const qsa_entry entry = {.seq = seq, .tokens = n};
    const qsa_output no_output = {0};
    qsa_step *step;
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    for (uint32_t layer = 0; layer < batch->config.layers; layer++) {
        const qsa_tensors tensors = world_tensors(batch, 0, layer);
        world_ok(qsa_step_layer(step, layer, &tensors, &no_output));
    }
    world_ok(qsa_step_commit(step, NULL));
    return seq;
}

/* At lengths on both sides of the cut, into a poisoned target that held another sequence before. */
static void what_follows_a_hand_over_is_what_follows_without(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {1, 2047, 2051, 2052, 2718, 4100};
    qsa_config config = world_narrow();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t n = lengths[i];
        world_batch here = world_batch_open(&config, n + 27, 1), there = world_batch_open(&config, n + 27, 1);
        world_memory memory = {.poison = true};
        qsa_allocator allocator = world_allocator(&memory);
        qsa_config poisoned = config;
        poisoned.allocator = &allocator;
        qsa_cache *from = world_create(&config), *to = world_create(&poisoned);
        qsa_seq a = fed(from, &here, n), before = fed(to, &there, n); /* in the same place */
        world_ok(qsa_seq_close(to, before));
        mini_bytes bytes = saved(from, a);
        qsa_seq b = loaded(to, &bytes);
        qsa_seq_info info;
        world_ok(qsa_seq_query(to, b, &info));
        assert_int_equal(info.tokens, n);
        assert_int_equal(info.groups, n / 4);
        world_feed(from, a, n, &here, n, 27, 0, (world_way){0});
        world_feed(to, b, n, &there, n, 27, 4, (world_way){.parts = 3}); /* other chunks and parts */
        world_same("after the hand-over", &here, n, &there, n, 27);
        world_ok(qsa_seq_rewind(to, b, n + 25)); /* two drafts are rejected */
        world_ok(qsa_seq_rewind(from, a, n + 25));
        assert_true(world_digest(from, a) == world_digest(to, b));
        world_ok(qsa_seq_verify_index(to, b));
        mini_free(&bytes);
        qsa_cache_destroy(from);
        qsa_cache_destroy(to);
        world_batch_close(&here);
        world_batch_close(&there);
    }
}

/* Queries of the last tokens after the pooled keys of a snapshot were zeroed: above the cut the selection is another,
 * below it is the same. So the tests here can see a missing index. */
static bool a_zeroed_index_shows(const qsa_config *config, uint32_t n)
{
    world_batch here = world_batch_open(config, n + 1, 1), there = world_batch_open(config, n + 1, 1);
    qsa_cache *from = world_create(config), *to = world_create(config);
    qsa_seq a = fed(from, &here, n);
    mini_bytes bytes = saved(from, a);
    part pooled = parts_get(bytes.data, bytes.size, "POOL", 0);
    memset(bytes.data + pooled.data_at, 0, pooled.size);
    parts_seal(bytes.data, bytes.size);
    qsa_seq b = loaded(to, &bytes);
    assert_int_equal(qsa_seq_verify_index(to, b), QSA_E_FORMAT);
    world_feed(from, a, n, &here, n, 1, 0, (world_way){0});
    world_feed(to, b, n, &there, n, 1, 0, (world_way){0});
    bool differs = here.n_groups[n] != there.n_groups[n] ||
                   memcmp(here.groups + (size_t)n * 512, there.groups + (size_t)n * 512, 512 * 4) != 0;
    mini_free(&bytes);
    qsa_cache_destroy(from);
    qsa_cache_destroy(to);
    world_batch_close(&here);
    world_batch_close(&there);
    return differs;
}

static void a_zeroed_index_shows_above_the_cut_and_not_below(void **state)
{
    (void)state;
    const qsa_config config = world_narrow();
    assert_false(a_zeroed_index_shows(&config, 2046));
    assert_false(a_zeroed_index_shows(&config, 2050));
    assert_true(a_zeroed_index_shows(&config, 2100));
    assert_true(a_zeroed_index_shows(&config, 4099));
}

/* Triples and, in every layer, K, V and raw keys of exactly the tokens, without padding; one pooled key per group. */
static void the_parts_of_a_snapshot_are_complete(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    static const uint32_t lengths[] = {1, 13, 300, 520};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t n = lengths[i], width = 8 * 4;
        config.layers = 12;
        config.max_step_tokens = 520;
        world_batch batch = world_batch_open(&config, n, 1);
        qsa_cache *cache = world_create(&config);
        mini_bytes bytes = saved(cache, fed(cache, &batch, n));
        part triples = parts_get(bytes.data, bytes.size, "TRIP", 0);
        assert_int_equal(triples.rows, n);
        assert_int_equal(triples.size, n * 12);
        for (uint32_t layer = 0; layer < 12; layer++) {
            static const char *const tags[] = {"K   ", "V   ", "RAW "};
            for (int t = 0; t < 3; t++) {
                part p = parts_get(bytes.data, bytes.size, tags[t], layer);
                assert_int_equal(p.rows, n);
                assert_int_equal(p.size, n * width);
            }
            part pooled = parts_get(bytes.data, bytes.size, "POOL", layer);
            assert_int_equal(pooled.rows, n / 4);
            assert_int_equal(pooled.size, n / 4 * width);
        }
        mini_free(&bytes);
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
    }
}

/* The triples of an image survive, and so do its pooled keys. */
static void triples_of_an_image_survive(void **state)
{
    (void)state;
    const qsa_config config = world_mini();
    enum { TOKENS = 304 };
    qsa_triple triples[TOKENS], back[TOKENS];
    for (int32_t t = 0; t < TOKENS; t++) {
        int32_t cell = t - 3;
        triples[t] = t < 3      ? (qsa_triple){t, t, t}
                     : t == 303 ? (qsa_triple){23, 23, 23}
                                : (qsa_triple){3, 3 + cell / 20, 3 + cell % 20};
    }
    qsa_cache *from = world_create(&config), *to = world_create(&config);
    world_batch batch = world_batch_open(&config, TOKENS, 1);
    qsa_seq a = world_open(from);
    const qsa_entry entry = {.seq = a, .tokens = TOKENS, .triples = triples};
    world_step(from, &entry, 1, &batch, 0, (world_way){0}, NULL);
    mini_bytes bytes = saved(from, a);
    qsa_seq b = loaded(to, &bytes);
    world_ok(qsa_seq_read_triples(to, b, (qsa_span){0, TOKENS}, back));
    assert_memory_equal(triples, back, sizeof back);
    assert_true(world_digest(from, a) == world_digest(to, b));
    world_ok(qsa_seq_verify_index(to, b));
    mini_free(&bytes);
    qsa_cache_destroy(from);
    qsa_cache_destroy(to);
    world_batch_close(&batch);
}

/* Checkpoints of a growing sequence are forks: they reference its pages without copying them, and closing some, newest
 * first, leaves the others intact. */
static void checkpoints_share_their_history(void **state)
{
    (void)state;
    enum { CHECKPOINTS = 32, STEP = 37 };
    qsa_config config = world_mini();
    config.max_sequences = CHECKPOINTS + 1;
    config.capacity_tokens = 2 * CHECKPOINTS * QSA_PAGE_TOKENS;
    qsa_cache *cache = world_create(&config);
    world_batch batch = world_batch_open(&config, CHECKPOINTS * STEP, 1);
    qsa_seq seq = world_open(cache), kept[CHECKPOINTS];
    uint64_t digests[CHECKPOINTS];
    for (uint32_t i = 0; i < CHECKPOINTS; i++) {
        world_feed(cache, seq, i * STEP, &batch, i * STEP, STEP, 0, (world_way){0});
        world_ok(qsa_seq_fork(cache, seq, (i + 1) * STEP, &kept[i]));
        digests[i] = world_digest(cache, kept[i]);
    }
    uint64_t held = config.capacity_tokens - qsa_cache_free_tokens(cache);
    assert_true(held <=
                CHECKPOINTS * STEP + (CHECKPOINTS + 1) * QSA_PAGE_TOKENS); /* a page each, and the tokens once */
    for (uint32_t i = CHECKPOINTS; i-- > 0; i -= i > 0) {
        world_ok(qsa_seq_close(cache, kept[i]));
        for (uint32_t j = i; j-- > 0;)
            assert_true(world_digest(cache, kept[j]) == digests[j]);
    }
    world_ok(qsa_cache_check(cache));
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* A damaged snapshot is refused beside a live sequence. That sequence, and a new one in the freed pages, go on as if
 * alone. */
static void a_refused_record_leaves_no_trace_in_what_follows(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.capacity_tokens = 3 * QSA_PAGE_TOKENS;
    world_batch live = world_batch_open(&config, 40, 1), record = world_batch_open(&config, 40, 100),
                alone = world_batch_open(&config, 40, 1), fresh = world_batch_open(&config, 40, 100);
    qsa_cache *source = world_create(&config), *cache = world_create(&config);
    mini_bytes bytes = saved(source, fed(source, &record, 40));
    qsa_seq seq = fed(cache, &live, 20);
    uint64_t before = world_digest(cache, seq);
    part last = parts_get(bytes.data, bytes.size, "K   ", 2);
    bytes.data[last.data_at + last.size / 2] ^= 1;
    qsa_snapshot snapshot;
    qsa_reader reader = mini_reader(&bytes);
    assert_int_equal(qsa_snapshot_read(cache, MODEL, &reader, &snapshot), QSA_E_FORMAT);
    assert_non_null(strstr(qsa_error_detail(), "K of layer 2: checksum"));
    assert_true(world_digest(cache, seq) == before);
    world_feed(cache, seq, 20, &live, 20, 20, 0, (world_way){0});
    world_solo(&config, 0, &alone, 0, (world_way){0});
    world_same("the live sequence", &alone, 20, &live, 20, 20);
    qsa_seq next = world_open(cache);
    world_feed(cache, next, 0, &fresh, 0, 40, 0, (world_way){0});
    world_solo(&config, 0, &record, 0, (world_way){0});
    world_same("a fresh sequence", &record, 0, &fresh, 0, 40);
    mini_free(&bytes);
    qsa_cache_destroy(source);
    qsa_cache_destroy(cache);
    world_batch_close(&live);
    world_batch_close(&record);
    world_batch_close(&alone);
    world_batch_close(&fresh);
}

/* Bytes do not depend on where pages lie, nor on how the tokens came. */
static void the_same_state_gives_the_same_bytes(void **state)
{
    (void)state;
    const qsa_config config = world_mini();
    world_batch one = world_batch_open(&config, 200, 1), two = world_batch_open(&config, 200, 1);
    qsa_cache *a = world_create(&config), *b = world_create(&config);
    mini_bytes first = saved(a, fed(a, &one, 200));
    qsa_seq other = world_open(b), seq = world_open(b);
    for (uint32_t at = 0; at < 200; at += 25) { /* pages of two sequences alternate */
        world_feed(b, other, at, &two, at, 25, 0, (world_way){0});
        world_feed(b, seq, at, &two, at, 25, 7, (world_way){.parts = 2});
    }
    mini_bytes second = saved(b, seq);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    world_ok(qsa_seq_close(b, other));
    world_ok(qsa_cache_compact(b));
    mini_free(&second);
    second = saved(b, seq);
    assert_memory_equal(first.data, second.data, first.size);
    mini_free(&first);
    mini_free(&second);
    qsa_cache_destroy(a);
    qsa_cache_destroy(b);
    world_batch_close(&one);
    world_batch_close(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_a_hand_over_is_what_follows_without),
        cmocka_unit_test(a_zeroed_index_shows_above_the_cut_and_not_below),
        cmocka_unit_test(the_parts_of_a_snapshot_are_complete),
        cmocka_unit_test(triples_of_an_image_survive),
        cmocka_unit_test(checkpoints_share_their_history),
        cmocka_unit_test(a_refused_record_leaves_no_trace_in_what_follows),
        cmocka_unit_test(the_same_state_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
