/* Groups, tail and budget at their edges, in chunks that end anywhere. */
#include "world.h"

#include <math.h>
#include <string.h>

static uint32_t row_of(const world_batch *batch, uint32_t token, uint32_t n_tokens, uint32_t *out_row)
{
    const qsa_config *config = &batch->config;
    size_t at = (size_t)token * config->layers;
    uint32_t n = 0;
    world_ok(qsa_selected_tokens(batch->groups + at * (config->budget / config->ratio), batch->n_groups[at],
                                 config->ratio, n_tokens, out_row, &n));
    return n;
}

/* Gives every element of a tensor of a token, in all layers, one value. */
static void set_all(world_batch *batch, int tensor, uint32_t token, float value)
{
    for (uint32_t layer = 0; layer < batch->config.layers; layer++) {
        uint32_t width;
        float *x = world_input(batch, tensor, token, layer, &width);
        for (uint32_t i = 0; i < width; i++)
            x[i] = value;
    }
}

/* Inside a prompt chunk no query picks a group that ends after it, however good its key is. */
static void chunk_never_shows_a_group_that_ends_later(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    for (uint32_t end = 6; end <= 40; end++) {
        world_batch batch = world_batch_open(&config, end, 1);
        for (uint32_t t = 5; t < end; t++)
            set_all(&batch, WORLD_RAW_KEY, t, 0x1p50f);
        world_solo(&config, 0, &batch, 0, (world_way){0});
        for (uint32_t p = 0; p < end; p++) {
            uint32_t row[12], n = row_of(&batch, p, p + 1, row);
            assert_int_equal(batch.n_groups[p * config.layers], (p + 1) / 4 < 2 ? (p + 1) / 4 : 2);
            assert_int_equal(n, 4 * batch.n_groups[p * config.layers] + (p + 1) % 4);
            assert_true(row[n - 1] <= p);
        }
        uint32_t row[12];
        static const uint32_t first_five[] = {0, 1, 2, 3, 4};
        assert_int_equal(row_of(&batch, 4, 5, row), 5);
        assert_memory_equal(row, first_five, sizeof first_five);
        if (end > 7)
            assert_int_equal(batch.n_groups[7 * config.layers], 2); /* group 1 is a candidate from p = 7 on */
        world_batch_close(&batch);
    }
}

/* The query that completes a group may lose it, and then does not attend to itself. */
static void query_can_lose_its_own_group(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    world_batch batch = world_batch_open(&config, 12, 1);
    for (uint32_t t = 0; t < 12; t++)
        set_all(&batch, WORLD_INDEX_Q, t, 0); /* all scores 0: the lowest two groups win */
    world_solo(&config, 0, &batch, 0, (world_way){0});
    uint32_t row[12], n = row_of(&batch, 11, 12, row);
    assert_int_equal(n, 8);
    assert_int_equal(row[7], 7);
    world_batch_close(&batch);
}

/* One, two, three tokens on nothing and on 4,096: nothing is pooled but by the fourth. */
static void extends_shorter_than_a_group(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    for (uint32_t before = 0; before <= 4096; before += 4096)
        for (uint32_t n = 1; n <= 4; n++) {
            world_batch batch = world_batch_open(&config, before + n, 1);
            qsa_cache *cache = world_create(&config);
            qsa_seq seq = world_open(cache);
            qsa_counters counters;
            qsa_seq_info info;
            if (before > 0)
                world_feed(cache, seq, 0, &batch, 0, before, 0, (world_way){0});
            world_feed(cache, seq, before, &batch, before, n, 0, (world_way){0});
            world_ok(qsa_cache_counters(cache, &counters));
            world_ok(qsa_seq_query(cache, seq, &info));
            assert_int_equal(counters.keys_pooled, (before + n) / 4);
            assert_int_equal(info.groups, (before + n) / 4);
            world_ok(qsa_seq_verify_index(cache, seq));
            qsa_cache_destroy(cache);
            world_batch_close(&batch);
        }
}

/* A prompt of 64, one token after 1,001 and one after 7 in one step: as in three steps, and the third closes group 1.
 */
static void decode_rows_mixed_into_a_prompt(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    config.max_sequences = 3;
    world_batch alone[3] = {world_batch_open(&config, 64, 1), world_batch_open(&config, 1002, 2000),
                            world_batch_open(&config, 8, 5000)};
    world_batch mixed = world_batch_open(&config, 66, 1), before = world_batch_open(&config, 1001, 2000),
                few = world_batch_open(&config, 7, 5000);
    for (int i = 0; i < 3; i++)
        world_solo(&config, 0, &alone[i], 0, (world_way){0});
    qsa_cache *cache = world_create(&config);
    const qsa_seq a = world_open(cache), b = world_open(cache), c = world_open(cache);
    world_feed(cache, b, 0, &before, 0, 1001, 0, (world_way){0});
    world_feed(cache, c, 0, &few, 0, 7, 0, (world_way){0});
    world_batch_set(&mixed, 64, 2000 + 1001);
    world_batch_set(&mixed, 65, 5000 + 7);
    const qsa_entry entries[] = {{.seq = a, .position = 0, .tokens = 64},
                                 {.seq = b, .position = 1001, .tokens = 1},
                                 {.seq = c, .position = 7, .tokens = 1}};
    world_step(cache, entries, 3, &mixed, 0, (world_way){.parts = 2}, NULL);
    world_same("the prompt", &alone[0], 0, &mixed, 0, 64);
    world_same("the token after 1,001", &alone[1], 1001, &mixed, 64, 1);
    world_same("the token after 7", &alone[2], 7, &mixed, 65, 1);
    assert_int_equal(mixed.n_groups[65], 2);
    qsa_cache_destroy(cache);
    for (int i = 0; i < 3; i++)
        world_batch_close(&alone[i]);
    world_batch_close(&mixed);
    world_batch_close(&before);
    world_batch_close(&few);
}

/* A pooled key in binary64, by the formula. */
static void pooled_in_double(const qsa_config *config, const float *raw, uint32_t position, double *out)
{
    const uint32_t dim = config->index_dim, half = config->rotary_dim / 2;
    double squares = 0;
    for (uint32_t d = 0; d < dim; d++) {
        out[d] = 0;
        for (uint32_t t = 0; t < 4; t++)
            out[d] += (double)raw[t * dim + d] / 4;
        squares += out[d] * out[d];
    }
    for (uint32_t d = 0; d < dim; d++)
        out[d] /= sqrt(squares / dim + (double)config->eps);
    for (uint32_t i = 0; i < half; i++) {
        double angle = position * pow((double)config->theta, -2.0 * i / config->rotary_dim), low = out[i];
        out[i] = low * cos(angle) - out[i + half] * sin(angle);
        out[i + half] = out[i + half] * cos(angle) + low * sin(angle);
    }
}

static void first_rows_appear_at_four_and_eight_in_every_dimension(void **state)
{
    (void)state;
    static const uint32_t dims[] = {8, 12, 100, 128};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        qsa_config config = world_mini();
        config.index_dim = dims[i];
        config.layers = 1;
        world_batch batch = world_batch_open(&config, 9, 1);
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        for (uint32_t n = 1; n <= 9; n++) {
            float pooled[2 * 128];
            double expected[128];
            world_feed(cache, seq, n - 1, &batch, n - 1, 1, 0, (world_way){0});
            world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, n / 4 * 4}, pooled));
            for (uint32_t g = 0; g < n / 4; g++) {
                pooled_in_double(&config, world_input(&batch, WORLD_RAW_KEY, 4 * g, 0, NULL), 4 * g, expected);
                for (uint32_t d = 0; d < dims[i]; d++)
                    assert_true(fabs(expected[d] - (double)pooled[g * dims[i] + d]) < 2e-6);
            }
            world_refused(QSA_E_RANGE, "span",
                          qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, (n / 4 + 1) * 4}, pooled));
        }
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
    }
}

/* ---- long prompts in chunks ---- */

/* Makes one group the best of all for every query: its keys lie along the dimensions that do not rotate. */
static void make_best(world_batch *batch, uint32_t group)
{
    const uint32_t first = batch->config.rotary_dim;
    for (uint32_t t = 0; t < batch->tokens; t++) {
        uint32_t width;
        float *key = world_input(batch, WORLD_RAW_KEY, t, 0, &width),
              *q = world_input(batch, WORLD_INDEX_Q, t, 0, NULL);
        for (uint32_t d = first; d < width; d++) {
            q[d] = 1;
            key[d] = t / 4 == group ? 30 : -0.1f;
        }
    }
}

static bool chose(const world_batch *batch, uint32_t token, uint32_t group)
{
    const size_t k = batch->config.budget / batch->config.ratio;
    for (uint32_t i = 0; i < batch->n_groups[token]; i++)
        if (batch->groups[token * k + i] == group)
            return true;
    return false;
}

static qsa_config one_wide_head(void)
{
    qsa_config config = world_narrow();
    config.index_dim = 8; /* four dimensions that do not rotate */
    config.capacity_tokens = 16384;
    config.max_step_tokens = 2048;
    return config;
}

/* A fact in the middle of 6,042 tokens, in chunks of 2,048, 2,048, 1,945 and 1. */
static void fact_in_the_middle_is_reachable_from_every_chunk(void **state)
{
    (void)state;
    qsa_config config = one_wide_head();
    world_batch batch = world_batch_open(&config, 6042, 1);
    make_best(&batch, 755);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    qsa_counters before, after;
    world_feed(cache, seq, 0, &batch, 0, 6041, 2048, (world_way){0});
    world_ok(qsa_cache_counters(cache, &before));
    world_feed(cache, seq, 6041, &batch, 6041, 1, 0, (world_way){0});
    world_ok(qsa_cache_counters(cache, &after));
    assert_int_equal(after.groups_scored - before.groups_scored, 1510);
    for (uint32_t t = 4 * 755 + 3; t < 6042; t++)
        assert_true(chose(&batch, t, 755));
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* V is 1 in one distant chosen group and 0 elsewhere, all weights equal: the output is 4 / length of the row. */
static void distant_group_contributes_its_share(void **state)
{
    (void)state;
    qsa_config config = one_wide_head();
    const uint32_t n = 2100;
    world_batch batch = world_batch_open(&config, n, 1);
    make_best(&batch, 3);
    for (uint32_t t = 0; t < n; t++) {
        set_all(&batch, WORLD_Q, t, 0);
        set_all(&batch, WORLD_V, t, t / 4 == 3 ? 1.0f : 0.0f);
    }
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    world_feed(cache, seq, 0, &batch, 0, n, 700, (world_way){0});
    world_ok(qsa_seq_rewind(cache, seq, n - 1));
    world_feed(cache, seq, n - 1, &batch, n - 1, 1, 0, (world_way){.parts = 4});
    for (uint32_t t = 15; t < n; t++) {
        uint32_t tokens = t + 1, length = 4 * (tokens / 4 < 512 ? tokens / 4 : 512) + tokens % 4;
        float share = 4.0f * (1.0f / (float)length);
        for (uint32_t d = 0; d < 4; d++)
            assert_true(batch.out[t * 4 + d] == share);
    }
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* After a prefix, the own rank is the largest there is; the budget is tokens, whatever pages there are. */
static void ranks_go_on_after_a_prefix(void **state)
{
    (void)state;
    qsa_config config = one_wide_head();
    world_batch batch = world_batch_open(&config, 12002, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    uint32_t row[2052];
    world_feed(cache, seq, 0, &batch, 0, 2100, 2048, (world_way){0});
    world_feed(cache, seq, 2100, &batch, 2100, 3, 0, (world_way){0});
    for (uint32_t t = 2100; t < 2103; t++) {
        uint32_t n = row_of(&batch, t, t + 1, row);
        assert_true(row[n - 1] <= t && ((t + 1) % 4 == 0 || row[n - 1] == t));
    }
    world_feed(cache, seq, 2103, &batch, 2103, 12002 - 2103, 2048, (world_way){0});
    assert_int_equal(row_of(&batch, 12001, 12002, row), 2050); /* 512 groups and a tail of 2 */
    assert_true(row[2049] == 12001 && row[2048] == 12000);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* Whatever storage type works below the cut works beyond it, in one go, in chunks, resumed, decoded, verified. */
static void every_type_works_on_both_sides_of_the_cut(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {128, 2051, 2052, 4096};
    for (int type = 0; type < QSA_KV_TYPE_COUNT; type++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const uint32_t n = lengths[i];
            qsa_config config = world_narrow();
            world_kv_type(&config, type);
            config.profile = (qsa_profile)(type % QSA_PROFILE_COUNT);
            world_batch whole = world_batch_open(&config, n, 1), found = world_batch_open(&config, n, 1);
            uint64_t digest = world_solo(&config, 0, &whole, 0, (world_way){0});
            qsa_cache *cache = world_create(&config);
            qsa_seq seq = world_open(cache);
            world_feed(cache, seq, 0, &found, 0, n - 9, 1024, (world_way){.parts = 2});
            world_feed(cache, seq, n - 9, &found, n - 9, 5, 1, (world_way){.parts = 2}); /* decode */
            world_feed(cache, seq, n - 4, &found, n - 4, 4, 4, (world_way){0});          /* verify 4 */
            world_same("both sides of the cut", &whole, 0, &found, 0, n);
            assert_int_equal(world_digest(cache, seq), digest);
            qsa_cache_destroy(cache);
            world_batch_close(&whole);
            world_batch_close(&found);
        }
}

/* The index does not depend on how K and V are stored. */
static void index_is_independent_of_the_type_of_k_and_v(void **state)
{
    (void)state;
    float pooled[2][525 * 4];
    world_batch batch[2];
    for (int kv = 0; kv < 2; kv++) {
        qsa_config config = world_narrow();
        config.kv_type = (qsa_kv_type)kv;
        batch[kv] = world_batch_open(&config, 2100, 1);
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        world_feed(cache, seq, 0, &batch[kv], 0, 2100, 0, (world_way){0});
        world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, 2100}, pooled[kv]));
        qsa_cache_destroy(cache);
    }
    assert_memory_equal(pooled[0], pooled[1], sizeof pooled[0]);
    assert_memory_equal(batch[0].groups, batch[1].groups, 2100 * 512 * sizeof(uint32_t));
    world_batch_close(&batch[0]);
    world_batch_close(&batch[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunk_never_shows_a_group_that_ends_later),
        cmocka_unit_test(query_can_lose_its_own_group),
        cmocka_unit_test(extends_shorter_than_a_group),
        cmocka_unit_test(decode_rows_mixed_into_a_prompt),
        cmocka_unit_test(first_rows_appear_at_four_and_eight_in_every_dimension),
        cmocka_unit_test(fact_in_the_middle_is_reachable_from_every_chunk),
        cmocka_unit_test(distant_group_contributes_its_share),
        cmocka_unit_test(ranks_go_on_after_a_prefix),
        cmocka_unit_test(every_type_works_on_both_sides_of_the_cut),
        cmocka_unit_test(index_is_independent_of_the_type_of_k_and_v),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
