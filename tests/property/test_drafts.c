/* Drafts that are taken back, by keep counts or by rewinding: afterwards everything is as if they had never been. */
#include "world.h"

#include <string.h>

/* A run of 30 tokens whose first `start` are committed; then a window of drafts with other keys, of which the first
 * `accepted` are the right ones; then the run goes on. */
static void draft_and_go_on(const qsa_config *config, const world_batch *whole, uint64_t digest, uint32_t start,
                            uint32_t window, uint32_t accepted, bool by_keep)
{
    world_batch found = world_batch_open(config, whole->tokens, 1), drafts = world_batch_open(config, window, 800);
    for (uint32_t t = 0; t < accepted; t++)
        world_batch_set(&drafts, t, 1 + start + t);
    qsa_cache *cache = world_create(config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &found, 0, start, 0, (world_way){0});
    qsa_entry entry = {.seq = seq, .position = start, .tokens = window};
    world_step(cache, &entry, 1, &drafts, 0, (world_way){.parts = 2}, by_keep ? &accepted : NULL);
    if (!by_keep)
        world_ok(qsa_seq_rewind(cache, seq, start + accepted));
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, seq, &info));
    assert_true(info.tokens == start + accepted && info.groups == (start + accepted) / config->ratio);
    world_ok(qsa_seq_verify_index(cache, seq));
    world_same("accepted drafts", whole, start, &drafts, 0, accepted);
    world_feed(cache, seq, start + accepted, &found, start + accepted, whole->tokens - start - accepted, 1,
               (world_way){0});
    world_same("after drafts", whole, start + accepted, &found, start + accepted, whole->tokens - start - accepted);
    assert_int_equal(world_digest(cache, seq), digest);
    qsa_cache_destroy(cache);
    world_batch_close(&found);
    world_batch_close(&drafts);
}

static void every_window_and_acceptance_is_as_if_never_drafted(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.capacity_tokens = 128;
    config.layers = 2;
    world_batch whole = world_batch_open(&config, 30, 1);
    uint64_t digest = world_solo(&config, 0, &whole, 0, (world_way){0});
    for (uint32_t start = 8; start <= 12; start++)
        for (uint32_t window = 1; window <= 8; window++)
            for (uint32_t accepted = 0; accepted <= window; accepted++)
                for (int by_keep = 0; by_keep < 2; by_keep++)
                    draft_and_go_on(&config, &whole, digest, start, window, accepted, by_keep);
    world_batch_close(&whole);
}

/* Cut inside and at the edges of groups, and back to nothing. */
static void decode_cut_and_other_tokens(void **state)
{
    (void)state;
    static const uint32_t cuts[] = {13, 12, 11, 10, 9, 8, 5, 4, 3, 1, 0};
    qsa_config config = world_mini();
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        world_batch batch = world_batch_open(&config, 30, 1), found = world_batch_open(&config, 30, 1);
        for (uint32_t t = cuts[i]; t < 30; t++)
            world_batch_set(&batch, t, 300 + t);
        uint64_t digest = world_solo(&config, 9, &batch, 0, (world_way){0});
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        world_feed(cache, seq, 9, &found, 0, 13, 1, (world_way){0});
        world_ok(qsa_seq_rewind(cache, seq, 9 + cuts[i]));
        qsa_seq_info info;
        world_ok(qsa_seq_query(cache, seq, &info));
        assert_int_equal(info.groups, cuts[i] / 4);
        for (uint32_t t = cuts[i]; t < 30; t++)
            world_batch_set(&found, t, 300 + t);
        world_feed(cache, seq, 9 + cuts[i], &found, cuts[i], 30 - cuts[i], 3, (world_way){0});
        world_same("after the cut", &batch, cuts[i], &found, cuts[i], 30 - cuts[i]);
        assert_int_equal(world_digest(cache, seq), digest);
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
        world_batch_close(&found);
    }
}

/* Two rows of 9 and 13 tokens, 3 drafts each, all refused, one right token each: the row at place 9 is the right one.
 */
static void rows_of_a_batch_are_cut_each_by_its_own_count(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    qsa_cache *cache = world_create(&config);
    qsa_seq a = world_open(cache), b = world_open(cache);
    world_batch start = world_batch_open(&config, 22, 1), drafts = world_batch_open(&config, 6, 100),
                right = world_batch_open(&config, 2, 200);
    const qsa_entry begin[] = {{.seq = a, .position = 0, .tokens = 9}, {.seq = b, .position = 0, .tokens = 13}};
    const qsa_entry draft[] = {{.seq = a, .position = 9, .tokens = 3}, {.seq = b, .position = 13, .tokens = 3}};
    const qsa_entry one[] = {{.seq = a, .position = 9, .tokens = 1}, {.seq = b, .position = 13, .tokens = 1}};
    world_step(cache, begin, 2, &start, 0, (world_way){0}, NULL);
    world_step(cache, draft, 2, &drafts, 0, (world_way){0}, (const uint32_t[]){0, 0});
    world_step(cache, one, 2, &right, 0, (world_way){0}, NULL);
    float raw[8];
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, a, &info));
    assert_int_equal(info.tokens, 10);
    world_ok(qsa_seq_query(cache, b, &info));
    assert_int_equal(info.tokens, 14);
    for (uint32_t layer = 0; layer < config.layers; layer++) {
        world_ok(qsa_seq_read(cache, a, layer, QSA_TENSOR_RAW, (qsa_span){9, 10}, raw));
        test_same_floats("the tenth row", world_input(&right, WORLD_RAW_KEY, 0, layer, NULL), raw, 8);
    }
    qsa_step *step;
    const qsa_entry again = {.seq = a, .position = 9, .tokens = 1};
    world_refused(QSA_E_STORED, "position 9 is already stored; expected 10", qsa_step_begin(cache, &again, 1, &step));
    qsa_cache_destroy(cache);
    world_batch_close(&start);
    world_batch_close(&drafts);
    world_batch_close(&right);
}

/* Drafts around the cut of the released budget: 2,044 to 2,060 tokens, verified in windows of 1 to 8. */
static void drafts_around_the_cut(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    world_batch whole = world_batch_open(&config, 2090, 1), found = world_batch_open(&config, 2090, 1);
    uint64_t digest = world_solo(&config, 0, &whole, 0, (world_way){0});
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    uint64_t chance = 77;
    world_feed(cache, seq, 0, &found, 0, 2040, 0, (world_way){0});
    for (uint32_t at = 2040; at < 2090;) {
        uint32_t window = 1 + world_random(&chance, 8), keep;
        window = window < 2090 - at ? window : 2090 - at;
        keep = world_random(&chance, window + 1);
        for (uint32_t t = keep; t < window; t++)
            world_batch_set(&found, at + t, 9000 + t);
        qsa_entry entry = {.seq = seq, .position = at, .tokens = window};
        world_step(cache, &entry, 1, &found, at, (world_way){.parts = 1 + at % 4}, &keep);
        world_same("kept", &whole, at, &found, at, keep);
        for (uint32_t t = keep; t < window; t++)
            world_batch_set(&found, at + t, 1 + at + t);
        at += keep;
    }
    assert_int_equal(world_digest(cache, seq), digest);
    qsa_cache_destroy(cache);
    world_batch_close(&whole);
    world_batch_close(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_and_acceptance_is_as_if_never_drafted),
        cmocka_unit_test(decode_cut_and_other_tokens),
        cmocka_unit_test(rows_of_a_batch_are_cut_each_by_its_own_count),
        cmocka_unit_test(drafts_around_the_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
