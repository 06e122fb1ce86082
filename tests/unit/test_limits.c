/* Shapes and sizes at the stated limits are not only planned: they run, and give what the oracle gives. */
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run of a few tokens in chunks and parts, every query against the oracle. */
static void runs_as_the_oracle_does(const qsa_config *config, uint32_t tokens)
{
    world_batch batch = world_batch_open(config, tokens, 1);
    world_solo(config, 3, &batch, 7, (world_way){.parts = 3});
    const oracle_shape shape = world_oracle_shape(config);
    for (uint32_t layer = 0; layer<config->layers; layer += config->layers> 3 ? config->layers - 1 : 1) {
        oracle_run run;
        oracle_open(&run, &shape, 3, 0, 0);
        world_oracle_append(&run, &batch, layer, 0, tokens, NULL);
        for (uint32_t t = 0; t < tokens; t++)
            if (!world_oracle_agrees(&run, (int)t, &batch, t, layer))
                fail_msg("layer %u, token %u: not the oracle's", layer, t);
        oracle_close(&run);
    }
    world_batch_close(&batch);
}

static void largest_heads_and_dimensions_run(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.layers = 1;
    config.capacity_tokens = 64;
    config.head_dim = config.index_dim = config.rotary_dim = QSA_MAX_DIM;
    config.sections[0] = 200;
    config.sections[1] = config.sections[2] = 156;
    runs_as_the_oracle_does(&config, 21);
    config = world_mini();
    config.layers = 1;
    config.capacity_tokens = 64;
    config.q_heads = config.index_heads = QSA_MAX_Q_HEADS;
    runs_as_the_oracle_does(&config, 21); /* all share one kv head */
    config.kv_heads = QSA_MAX_Q_HEADS;
    runs_as_the_oracle_does(&config, 21);
}

static void most_layers_run(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.layers = QSA_MAX_LAYERS;
    config.head_dim = config.index_dim = config.rotary_dim = 2;
    config.sections[1] = 0;
    config.capacity_tokens = 64;
    runs_as_the_oracle_does(&config, 15);
}

static qsa_config flat(void)
{
    qsa_config config = world_narrow();
    config.q_heads = 1;
    config.head_dim = config.index_dim = config.rotary_dim = 2;
    config.sections[1] = 0;
    config.capacity_tokens = 66048;
    return config;
}

static void store(qsa_cache *cache, qsa_seq seq, const world_batch *batch, uint32_t at, uint32_t n)
{
    qsa_step *step;
    qsa_entry entry = {.seq = seq, .position = at, .tokens = n};
    qsa_tensors tensors = world_tensors(batch, at, 0);
    const qsa_output nowhere = {0};
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_ok(qsa_step_layer(step, 0, &tensors, &nowhere));
    world_ok(qsa_step_commit(step, NULL));
}

/* 65,536 groups of one token and 1,024 groups of 64: one query over each, in one part and in three. */
static void largest_budget_runs(void **state)
{
    (void)state;
    static const uint32_t ratios[] = {1, 64};
    for (int i = 0; i < 2; i++) {
        const uint32_t ratio = ratios[i], n = 66000, groups = n / ratio, k = QSA_MAX_BUDGET / ratio;
        qsa_config config = flat();
        config.ratio = ratio;
        config.budget = QSA_MAX_BUDGET;
        config.max_step_tokens = 32768;
        world_batch batch = {.config = config}; /* groups of all tokens would not fit: only inputs are made */
        world_batch one = world_batch_open(&config, 1, n - 1), again = world_batch_open(&config, 1, n - 1);
        float *raw = test_alloc((size_t)n * 2, sizeof *raw);
        test_fill(5, raw, (size_t)n * 2);
        batch.q = batch.k = batch.v = batch.index_q = batch.raw_key = raw;
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        for (uint32_t at = 0; at < n - 1; at += 32768)
            store(cache, seq, &batch, at, n - 1 - at < 32768 ? n - 1 - at : 32768);
        world_feed(cache, seq, n - 1, &one, 0, 1, 0, (world_way){.parts = 1});
        world_ok(qsa_seq_rewind(cache, seq, n - 1));
        world_feed(cache, seq, n - 1, &again, 0, 1, 0, (world_way){.parts = 3});
        world_same("the largest budget", &one, 0, &again, 0, 1);
        assert_int_equal(one.n_groups[0], k);
        float *pooled = test_alloc((size_t)groups * 2, sizeof *pooled), *scores = test_alloc(groups, sizeof *scores);
        uint32_t *expected = test_alloc(k, sizeof *expected), found;
        float query[2], cos, sin;
        qsa_rotary rotary;
        const int32_t p = (int32_t)n - 1;
        world_ok(qsa_rotary_init(&config, &rotary));
        world_ok(qsa_rotary_cos_sin(&rotary, (qsa_triple){p, p, p}, &cos, &sin));
        world_ok(qsa_norm_rotate(one.index_q, 1, 2, NULL, config.eps, 1, &cos, &sin, QSA_PROFILE_BF16, query));
        world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_POOLED, (qsa_span){0, (int64_t)groups * ratio}, pooled));
        world_ok(qsa_score(query, 1, 2, pooled, groups, scores));
        world_ok(qsa_select(scores, groups, k, expected, &found));
        assert_int_equal(found, k);
        assert_memory_equal(expected, one.groups, k * sizeof *expected);
        free(pooled);
        free(scores);
        free(expected);
        free(raw);
        qsa_cache_destroy(cache);
        world_batch_close(&one);
        world_batch_close(&again);
    }
}

/* 65,536 tokens in one step; the last of them is named where it is refused. */
static void longest_step_runs_and_names_its_last_token(void **state)
{
    (void)state;
    const uint32_t n = QSA_MAX_STEP_TOKENS;
    qsa_config config = flat();
    config.budget = 8;
    config.max_step_tokens = n;
    world_batch batch = world_batch_open(&config, n, 1);
    qsa_cache *cache = world_create(&config);
    qsa_step *step;
    qsa_entry entry = {.seq = world_open(cache), .position = 0, .tokens = n};
    float *last = world_input(&batch, WORLD_RAW_KEY, n - 1, 0, NULL), good = last[1];
    last[1] = NAN;
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_refused(QSA_E_NONFINITE, "entry 0, token 65535: raw_key", world_layers(step, &batch, 0, n, (world_way){0}));
    qsa_step_abort(step);
    last[1] = good;
    store(cache, entry.seq, &batch, 0, n);
    world_ok(qsa_seq_verify_index(cache, entry.seq));
    entry = (qsa_entry){.seq = world_open(cache), .position = 0, .tokens = n + 1};
    world_refused(QSA_E_LIMIT, "max_step_tokens", qsa_step_begin(cache, &entry, 1, &step));
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

/* As many sequences as there may be, each with its place, in a pool for a few. */
static void most_sequences_have_a_place(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    config.layers = 1;
    config.max_sequences = QSA_MAX_SEQUENCES;
    config.capacity_tokens = 128;
    qsa_cache *cache = world_create(&config);
    qsa_seq first = world_open(cache), second = world_open(cache);
    world_batch batch = world_batch_open(&config, 64, 1);
    world_feed(cache, first, 0, &batch, 0, 64, 0, (world_way){0});
    world_feed(cache, second, 0, &batch, 0, 64, 0, (world_way){0});
    world_ok(qsa_cache_compact(cache));
    world_ok(qsa_cache_check(cache));
    assert_int_equal(world_digest(cache, first), world_digest(cache, second));
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_heads_and_dimensions_run),
        cmocka_unit_test(most_layers_run),
        cmocka_unit_test(largest_budget_runs),
        cmocka_unit_test(longest_step_runs_and_names_its_last_token),
        cmocka_unit_test(most_sequences_have_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
