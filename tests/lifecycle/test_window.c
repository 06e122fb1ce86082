/* The window, SPEC section 2: the anchor moves by whole groups, for every query by its own position, so that chunking
 * cannot matter. */
#include "life_model.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 150, FIRST = 37 };

/* Scores are needed by queries that drop something, and by no others. */
static void check_scored(const qsa_cache *cache, const qsa_config *config, uint64_t window)
{
    const uint64_t k = config->budget / config->ratio;
    uint64_t scored = 0;
    for (int64_t p = FIRST; p < FIRST + TOKENS; p++) {
        qsa_view view;
        world_ok(qsa_run_view(FIRST, p, config->ratio, config->budget, window, &view));
        scored += view.groups > k ? view.groups : 0;
    }
    qsa_counters counters;
    world_ok(qsa_cache_counters(cache, &counters));
    assert_int_equal(counters.groups_scored, scored * config->layers);
}

/* Feeds a windowed sequence in chunks and gives its digest. */
static uint64_t feed_in_chunks(const qsa_config *config, world_batch *batch, uint64_t window, uint32_t chunk)
{
    qsa_cache *cache = world_create(config);
    qsa_seq seq = world_open(cache);
    world_ok(qsa_seq_window(cache, seq, window));
    world_feed(cache, seq, FIRST, batch, 0, TOKENS, chunk, (world_way){0});
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, seq, &info));
    int64_t p = FIRST + TOKENS, beyond = p + 1 - (int64_t)window - FIRST; /* the rule, for the query that comes next */
    assert_int_equal(info.anchor, beyond > 0 ? FIRST + (beyond + 3) / 4 * 4 : FIRST);
    check_scored(cache, config, window);
    uint64_t digest = world_digest(cache, seq);
    qsa_cache_destroy(cache);
    return digest;
}

/* Every query's selection and output is the oracle's, which keeps everything and applies the rule per query. */
static void compare_with_oracle(const qsa_config *config, world_batch *batch, uint64_t window)
{
    const oracle_shape shape = world_oracle_shape(config);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        oracle_run run;
        oracle_open(&run, &shape, FIRST, 0, (int)window);
        world_oracle_append(&run, batch, layer, 0, TOKENS, NULL);
        int32_t row[16];
        for (int t = 0; t < TOKENS; t++) {
            int size = oracle_row(&run, t, row);
            float out[16];
            oracle_attend(&run, t, row, size, out);
            size_t at = ((size_t)t * config->layers + layer) * 16;
            test_same_floats("windowed output", out, batch->out + at, 16);
        }
        oracle_close(&run);
    }
}

static void every_chunking_gives_the_rule_of_the_window(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 2, 3, 4, 5, 7, 8, 13, 63, 64, 65, 0};
    static const uint64_t windows[] = {4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 31, 64, 100, 149, 150, 151, 1000};
    const qsa_config config = world_mini();
    world_batch expected = world_batch_open(&config, TOKENS, 1), found = world_batch_open(&config, TOKENS, 1);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        uint64_t digest = feed_in_chunks(&config, &expected, windows[w], 0);
        compare_with_oracle(&config, &expected, windows[w]);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            assert_true(feed_in_chunks(&config, &found, windows[w], chunks[c]) == digest);
            for (uint32_t t = 0; t < TOKENS; t++) { /* groups are counted from an anchor that depends on the chunk */
                size_t at = (size_t)t * 3 * 16;
                test_same_floats("chunked output", expected.out + at, found.out + at, 3 * 16);
            }
        }
    }
    world_batch_close(&expected);
    world_batch_close(&found);
}

/* A sequence may be as long as it likes in a cache of a few pages: freed pages are used again. */
static void a_windowed_sequence_wraps_around_its_pages(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.capacity_tokens = 3 * QSA_PAGE_TOKENS;
    config.layers = 1;
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_ok(qsa_seq_window(cache, seq, 70));
    for (uint32_t at = 0; at < 10000; at += 10) {
        world_batch batch = world_batch_open(&config, 10, at);
        world_feed(cache, seq, at, &batch, 0, 10, 0, (world_way){0});
        world_batch_close(&batch);
    }
    qsa_counters counters;
    world_ok(qsa_cache_counters(cache, &counters));
    assert_int_equal(counters.pages_taken, (10000 + 63) / 64);
    assert_int_equal(counters.pages_copied, 0);
    world_ok(qsa_seq_verify_index(cache, seq));
    qsa_cache_destroy(cache);
}

/* Set on a sequence that is longer already: nothing is freed before the next commit, whose queries see the window. */
static void a_window_set_late_takes_effect_with_the_next_query(void **state)
{
    (void)state;
    const life_rules rules = life_mini(5);
    for (uint64_t window = 4; window < 40; window++) {
        life *l = life_begin(&rules, 5, NULL, 0);
        walker *one = life_open(l);
        life_feed(l, one, 9, 75, 75);
        world_ok(qsa_seq_window(l->cache, one->seq, window));
        walker_window(one, window);
        life_compare(l);
        life_feed(l, one, 84, 7, 3);
        life_feed(l, one, 87, 1, 1);
        life_end(l);
    }
}

/* Drafts that are taken back do not move the window. */
static void rejected_drafts_free_nothing(void **state)
{
    (void)state;
    const life_rules rules = life_mini(1);
    life *l = life_begin(&rules, 1, NULL, 0);
    walker *one = life_open(l);
    world_ok(qsa_seq_window(l->cache, one->seq, 12));
    walker_window(one, 12);
    life_feed(l, one, 0, 11, 11);
    life_feed(l, one, 11, 8, 0);
    assert_int_equal(one->n, 11);
    life_feed(l, one, 11, 8, 1);
    assert_int_equal(one->anchor, 4);
    life_end(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunking_gives_the_rule_of_the_window),
        cmocka_unit_test(a_windowed_sequence_wraps_around_its_pages),
        cmocka_unit_test(a_window_set_late_takes_effect_with_the_next_query),
        cmocka_unit_test(rejected_drafts_free_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
