/* Eviction that is no multiple of the ratio: groups are cut anew from the new anchor. The result is that of a fresh
 * sequence that was fed the same tokens at the same rotary positions. */
#include "life_model.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST = 100 };

static qsa_triple image_like(int32_t position)
{
    return (qsa_triple){position / 3, position / 3 + position % 3, position / 3 + position % 2};
}

/* Feeds tokens [first, first + n) of the batch at `position` with triples that follow from the token's number alone. */
static void feed(qsa_cache *cache, qsa_seq seq, int64_t position, world_batch *batch, uint32_t first, uint32_t n)
{
    qsa_triple *triples = test_alloc(n, sizeof *triples);
    for (uint32_t t = 0; t < n; t++)
        triples[t] = image_like((int32_t)(FIRST + first + t));
    const qsa_entry entry = {.seq = seq, .position = position, .tokens = n, .triples = triples};
    world_step(cache, &entry, 1, batch, first, (world_way){0}, NULL);
    free(triples);
}

/* What the kept tokens give in a cache of their own; then `more` tokens behind them. */
static uint64_t fresh(const qsa_config *config, world_batch *batch, uint32_t dropped, uint32_t n, uint32_t more)
{
    qsa_cache *cache = world_create(config);
    qsa_seq seq = world_open(cache);
    feed(cache, seq, FIRST + dropped, batch, dropped, n - dropped);
    if (more > 0)
        feed(cache, seq, FIRST + n, batch, n, more);
    uint64_t digest = world_digest(cache, seq);
    qsa_cache_destroy(cache);
    return digest;
}

static void evicted_anywhere_equals_a_fresh_sequence(void **state)
{
    (void)state;
    for (int types = 0; types < 4; types++)
        for (uint32_t n = 1; n <= 140; n += n < 22 ? 1 : 29) {
            qsa_config config = world_mini();
            config.kv_type = types & 1 ? QSA_KV_BF16 : QSA_KV_F32;
            config.profile = types & 2 ? QSA_PROFILE_BF16 : QSA_PROFILE_F32;
            world_batch batch = world_batch_open(&config, n + 9, 1), again = world_batch_open(&config, n + 9, 1);
            for (uint32_t dropped = 0; dropped < n; dropped += n < 22 ? 1 : 13) {
                qsa_cache *cache = world_create(&config);
                qsa_seq seq = world_open(cache);
                feed(cache, seq, FIRST, &batch, 0, n);
                world_ok(qsa_seq_evict(cache, seq, FIRST + dropped));
                world_ok(qsa_cache_check(cache));
                world_ok(qsa_seq_verify_index(cache, seq));
                assert_true(world_digest(cache, seq) == fresh(&config, &again, dropped, n, 0));
                feed(cache, seq, FIRST + n, &batch, n, 9);
                assert_true(world_digest(cache, seq) == fresh(&config, &again, dropped, n, 9));
                world_same("after the eviction", &again, n, &batch, n, 9);
                qsa_cache_destroy(cache);
            }
            world_batch_close(&batch);
            world_batch_close(&again);
        }
}

/* Evict [0, 3) of 16 and shift by -3: groups are cut from the new anchor, rotary positions stay. */
static void evicted_and_shifted_keeps_its_rotary_positions(void **state)
{
    (void)state;
    const qsa_config config = world_mini();
    world_batch batch = world_batch_open(&config, 30, 1), again = world_batch_open(&config, 30, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &batch, 0, 16, 5, (world_way){0});
    world_refused(QSA_E_HOLE, "between 4 and 7", qsa_seq_remove(cache, seq, (qsa_span){5, 7}));
    world_ok(qsa_seq_evict(cache, seq, 3));
    world_ok(qsa_seq_shift(cache, seq, -3));
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, seq, &info));
    assert_int_equal(info.anchor, 0);
    assert_int_equal(info.frontier, 13);
    assert_int_equal(info.rotary_frame, -3);
    assert_int_equal(info.groups, 3);
    qsa_cache *other = world_create(&config);
    qsa_seq unshifted = world_open(other);
    world_feed(other, unshifted, 3, &again, 3, 13, 0, (world_way){0});
    for (int tensor = 0; tensor < QSA_TENSOR_COUNT; tensor++) {
        float here[12 * 8], there[12 * 8];
        world_ok(qsa_seq_read(cache, seq, 2, tensor, (qsa_span){0, 12}, here));
        world_ok(qsa_seq_read(other, unshifted, 2, tensor, (qsa_span){3, 15}, there));
        test_same_floats("stored", there, here, tensor == QSA_TENSOR_POOLED ? 3 * 8 : 12 * 8);
    }
    world_feed(cache, seq, 13, &batch, 16, 14, 3, (world_way){0});
    world_feed(other, unshifted, 16, &again, 16, 14, 0, (world_way){0});
    world_same("shifted and not", &again, 16, &batch, 16, 14);
    qsa_cache_destroy(cache);
    qsa_cache_destroy(other);
    world_batch_close(&batch);
    world_batch_close(&again);
}

/* Pages that another sequence shares are left as they are. */
static void a_recut_does_not_touch_the_other_side_of_a_fork(void **state)
{
    (void)state;
    const life_rules rules = life_mini(1);
    life *l = life_begin(&rules, 1, NULL, 0);
    walker *one = life_open(l);
    life_feed(l, one, 0, 130, 130);
    for (uint32_t dropped = 1; dropped < 20; dropped += 3) {
        qsa_seq seq;
        walker *child = &l->walkers[1];
        world_ok(qsa_seq_fork(l->cache, one->seq, 129, &seq));
        walker_clone(one, 129, seq, child);
        world_ok(qsa_seq_evict(l->cache, seq, dropped));
        walker_drop_front(child, dropped);
        life_compare(l);
        life_feed(l, child, 129, 5, 4);
        life_feed(l, one, one->n, 1, 0);
        life_close(l, child);
    }
    life_end(l);
}

static void a_recut_needs_room_and_says_how_much(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.capacity_tokens = 3 * QSA_PAGE_TOKENS;
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_batch batch = world_batch_open(&config, 130, 1);
    world_feed(cache, seq, 0, &batch, 0, 130, 0, (world_way){0});
    uint64_t digest = world_digest(cache, seq);
    world_refused(QSA_E_FULL, "needs 3 pages of 64 tokens, 0 are free", qsa_seq_evict(cache, seq, 1));
    world_refused(QSA_E_FULL, "needs 2 pages", qsa_seq_evict(cache, seq, 3));
    assert_true(world_digest(cache, seq) == digest);
    world_ok(qsa_seq_rewind(cache, seq, 65));
    world_ok(qsa_seq_evict(cache, seq, 1)); /* 64 tokens and a free page */
    world_ok(qsa_seq_verify_index(cache, seq));
    world_ok(qsa_cache_check(cache));
    world_ok(qsa_seq_evict(cache, seq, 64)); /* a multiple from there on: no room is needed */
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evicted_anywhere_equals_a_fresh_sequence),
        cmocka_unit_test(evicted_and_shifted_keeps_its_rotary_positions),
        cmocka_unit_test(a_recut_does_not_touch_the_other_side_of_a_fork),
        cmocka_unit_test(a_recut_needs_room_and_says_how_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
