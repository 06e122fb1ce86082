/* Positions that are not simply counted: images, padding, anchors, rows of different lengths. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* ---- an image in the text ---- */

enum { IMAGE_ROWS = 15, IMAGE_COLUMNS = 20, IMAGE = IMAGE_ROWS * IMAGE_COLUMNS, PROMPT = 3 + IMAGE + 1 };

/* Three tokens of text, an image of 15 x 20 whose tokens share t = 3, and one token of text that goes on from its
 * largest coordinate. */
static void image_triples(qsa_triple *out)
{
    for (int32_t i = 0; i < 3; i++)
        out[i] = (qsa_triple){i, i, i};
    for (int32_t cell = 0; cell < IMAGE; cell++)
        out[3 + cell] = (qsa_triple){3, 3 + cell / IMAGE_COLUMNS, 3 + cell % IMAGE_COLUMNS};
    out[PROMPT - 1] = (qsa_triple){23, 23, 23};
}

static qsa_config image_config(void)
{
    qsa_config config = world_mini();
    config.layers = 1;
    config.head_dim = config.index_dim = 16;
    config.rotary_dim = 12;
    config.sections[0] = config.sections[1] = config.sections[2] = 2; /* t, h and w all turn something */
    config.capacity_tokens = 512;
    return config;
}

static void groups_are_cut_by_rank_and_never_by_rotary_position(void **state)
{
    (void)state;
    qsa_config config = image_config();
    qsa_triple triples[PROMPT], back[PROMPT];
    image_triples(triples);
    world_batch batch = world_batch_open(&config, PROMPT, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    for (uint32_t at = 0; at < PROMPT; at += 61) { /* chunks that end within the image */
        uint32_t n = PROMPT - at < 61 ? PROMPT - at : 61;
        qsa_entry entry = {.seq = seq, .position = at, .tokens = n, .triples = triples + at};
        world_step(cache, &entry, 1, &batch, at, (world_way){.parts = 2}, NULL);
    }
    qsa_seq_info info;
    world_ok(qsa_seq_query(cache, seq, &info));
    assert_true(info.tokens == 304 && info.groups == 76);
    world_ok(qsa_seq_read_triples(cache, seq, (qsa_span){0, PROMPT}, back));
    assert_memory_equal(triples, back, sizeof back);
    const oracle_shape shape = world_oracle_shape(&config);
    oracle_run run;
    oracle_open(&run, &shape, 0, 0, 0);
    world_oracle_append(&run, &batch, 0, 0, PROMPT, triples);
    for (uint32_t t = 0; t < PROMPT; t++)
        assert_true(world_oracle_agrees(&run, (int)t, &batch, t, 0));
    oracle_close(&run);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* Sections of every size: which pair turns with which coordinate is the oracle's. */
static void unequal_sections_turn_each_pair_with_its_own_coordinate(void **state)
{
    (void)state;
    enum { PAIRS = 6 };
    qsa_config config = image_config();
    qsa_triple triples[PROMPT];
    image_triples(triples);
    world_batch batch = world_batch_open(&config, PROMPT, 1);
    for (uint32_t h = 0; h <= PAIRS; h++)
        for (uint32_t w = 0; h + w <= PAIRS; w++) {
            config.sections[0] = PAIRS - h - w;
            config.sections[1] = h;
            config.sections[2] = w;
            qsa_cache *cache = world_create(&config);
            const qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = PROMPT, .triples = triples};
            world_step(cache, &entry, 1, &batch, 0, (world_way){0}, NULL);
            const oracle_shape shape = world_oracle_shape(&config);
            oracle_run run;
            oracle_open(&run, &shape, 0, 0, 0);
            world_oracle_append(&run, &batch, 0, 0, PROMPT, triples);
            for (uint32_t t = 0; t < PROMPT; t++)
                if (!world_oracle_agrees(&run, (int)t, &batch, t, 0))
                    fail_msg("sections %u, %u, %u: token %u differs", config.sections[0], h, w, t);
            oracle_close(&run);
            qsa_cache_destroy(cache);
        }
    world_batch_close(&batch);
}

/* Group 10 begins at rank 40, cell 37: its key turns with all three coordinates of that token, (3, 4, 20). */
static void pooled_key_rotates_with_the_whole_triple_of_its_first_token(void **state)
{
    (void)state;
    qsa_config config = image_config();
    qsa_triple triples[PROMPT];
    image_triples(triples);
    assert_true(triples[40].t == 3 && triples[40].h == 4 && triples[40].w == 20);
    world_batch batch = world_batch_open(&config, PROMPT, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    qsa_entry entry = {.seq = seq, .position = 0, .tokens = PROMPT, .triples = triples};
    world_step(cache, &entry, 1, &batch, 0, (world_way){0}, NULL);
    float found[16], expected[16], wrong[16];
    qsa_rotary rotary;
    const float *raw = world_input(&batch, WORLD_RAW_KEY, 40, 0, NULL);
    const qsa_triple temporal_only = {3, 3, 3};
    world_ok(qsa_rotary_init(&config, &rotary));
    world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){40, 44}, found));
    world_ok(qsa_pool_keys(&config, &rotary, raw, &triples[40], 1, NULL, expected));
    world_ok(qsa_pool_keys(&config, &rotary, raw, &temporal_only, 1, NULL, wrong));
    test_same_floats("group 10", expected, found, 16);
    assert_memory_not_equal(wrong, found, sizeof found);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* ---- padding ---- */

/* A batch of two left-padded rows, as an engine holds it: whatever stands in the padding, nobody sees it. */
static void padding_never_enters(void **state)
{
    (void)state;
    enum { WIDTH = 12, LONG = 12, SHORT = 5 };
    qsa_config config = world_mini();
    world_batch clean = world_batch_open(&config, SHORT, 100);
    world_solo(&config, 0, &clean, 0, (world_way){0});
    int64_t positions[WIDTH];
    uint8_t is_token[WIDTH];
    for (uint32_t i = 0; i < WIDTH; i++) {
        is_token[i] = i >= WIDTH - SHORT;
        positions[i] = is_token[i] ? i - (WIDTH - SHORT) : 1;
    }
    qsa_run run;
    world_ok(qsa_run_classify(positions, is_token, WIDTH, &run));
    assert_true(run.padding == WIDTH - SHORT && run.tokens == SHORT && run.anchor == 0);
    world_batch row = world_batch_open(&config, WIDTH, 1);
    for (uint32_t t = 0; t < WIDTH; t++)
        for (int tensor = 0; tensor < WORLD_INPUTS; tensor++) {
            uint32_t width;
            float *x = world_input(&row, tensor, t, 0, &width);
            for (uint32_t i = 0; t < run.padding && i < width * config.layers; i++)
                x[i] = tensor == WORLD_V ? 1e6f : 1e4f;
        }
    for (uint32_t t = 0; t < SHORT; t++)
        world_batch_set(&row, (uint32_t)run.padding + t, 100 + t);
    qsa_cache *cache = world_create(&config);
    qsa_entry entry = {.seq = world_open(cache), .position = run.anchor, .tokens = (uint32_t)run.tokens};
    world_step(cache, &entry, 1, &row, (uint32_t)run.padding, (world_way){0}, NULL);
    world_same("the padded row", &clean, 0, &row, (uint32_t)run.padding, SHORT);
    qsa_cache_destroy(cache);
    world_batch_close(&clean);
    world_batch_close(&row);
}

/* ---- anchors ---- */

/* Groups are cut from the anchor: with the same rotary positions a run gives the same wherever it begins. */
static void groups_are_cut_from_the_anchor(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    qsa_triple triples[50];
    for (int32_t t = 0; t < 50; t++)
        triples[t] = (qsa_triple){t, t, t};
    world_batch first = world_batch_open(&config, 50, 1);
    static const int64_t anchors[] = {0, 1, 2, 3, 50, 4097, QSA_MAX_POSITION - 49};
    for (size_t a = 0; a < sizeof anchors / sizeof *anchors; a++) {
        world_batch found = world_batch_open(&config, 50, 1);
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        for (uint32_t at = 0; at < 50; at += 10) {
            qsa_entry entry = {.seq = seq, .position = anchors[a] + at, .tokens = 10, .triples = triples + at};
            world_step(cache, &entry, 1, &found, at, (world_way){0}, NULL);
        }
        if (a == 0)
            memcpy(first.out, found.out, 50 * config.layers * 16 * sizeof(float));
        else
            test_same_floats("another anchor", first.out, found.out, 50 * config.layers * 16);
        qsa_cache_destroy(cache);
        world_batch_close(&found);
    }
    world_batch_close(&first);
}

/* ---- rows of different lengths in one step ---- */

static void rows_in_one_step(const qsa_config *config, uint32_t a_tokens, uint32_t b_tokens, uint32_t queries)
{
    world_batch a = world_batch_open(config, a_tokens, 1), b = world_batch_open(config, b_tokens, 10000);
    world_batch both = world_batch_open(config, 2 * queries, 1);
    world_solo(config, 0, &a, 2048, (world_way){0});
    world_solo(config, 0, &b, 2048, (world_way){0});
    qsa_cache *cache = world_create(config);
    const qsa_seq first = world_open(cache), second = world_open(cache);
    world_batch before_a = world_batch_open(config, a_tokens, 1), before_b = world_batch_open(config, b_tokens, 10000);
    world_feed(cache, first, 0, &before_a, 0, a_tokens - queries, 2048, (world_way){0});
    world_feed(cache, second, 0, &before_b, 0, b_tokens - queries, 2048, (world_way){0});
    for (uint32_t t = 0; t < queries; t++) {
        world_batch_set(&both, t, 1 + a_tokens - queries + t);
        world_batch_set(&both, queries + t, 10000 + b_tokens - queries + t);
    }
    const qsa_entry entries[] = {{.seq = first, .position = a_tokens - queries, .tokens = queries},
                                 {.seq = second, .position = b_tokens - queries, .tokens = queries}};
    world_step(cache, entries, 2, &both, 0, (world_way){.parts = 3}, NULL);
    world_same("the first row", &a, a_tokens - queries, &both, 0, queries);
    world_same("the second row", &b, b_tokens - queries, &both, queries, queries);
    qsa_cache_destroy(cache);
    world_batch_close(&a);
    world_batch_close(&b);
    world_batch_close(&both);
    world_batch_close(&before_a);
    world_batch_close(&before_b);
}

static void rows_of_different_lengths_are_as_if_alone(void **state)
{
    (void)state;
    qsa_config config = world_narrow(), mini = world_mini();
    config.max_sequences = 2;
    config.max_step_tokens = 2048;
    rows_in_one_step(&config, 2100, 4200, 1);
    rows_in_one_step(&mini, 21, 50, 2); /* two rows of two queries: a swapped axis would fit */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_cut_by_rank_and_never_by_rotary_position),
        cmocka_unit_test(unequal_sections_turn_each_pair_with_its_own_coordinate),
        cmocka_unit_test(pooled_key_rotates_with_the_whole_triple_of_its_first_token),
        cmocka_unit_test(padding_never_enters),
        cmocka_unit_test(groups_are_cut_from_the_anchor),
        cmocka_unit_test(rows_of_different_lengths_are_as_if_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
