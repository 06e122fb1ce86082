/* A layer without output stores the same bits as one with output, reads no query, and refuses what it stores. */
#include "support.h"

#include <math.h>
#include <qsa/qsa.h>
#include <stdlib.h>

enum { TOKENS = 100, HEADS = 2, DIM = 16, CHUNK = 30, LAST = TOKENS % CHUNK };

static qsa_cache *small_cache(void)
{
    qsa_config config;
    qsa_config_init(&config);
    config.layers = 1;
    config.q_heads = config.kv_heads = HEADS;
    config.head_dim = config.index_dim = DIM;
    config.index_heads = 1;
    config.budget = 32;
    config.rotary_dim = 8;
    config.sections[0] = config.sections[1] = config.sections[2] = 0;
    config.capacity_tokens = TOKENS;
    qsa_cache *cache;
    assert_int_equal(qsa_cache_create(&config, &cache), QSA_OK);
    return cache;
}

/* Feeds TOKENS tokens; the last chunk always has output. Returns the digest and the last chunk's output. */
static uint64_t feed(bool stores_only, uint32_t parts, float *output)
{
    static float values[TOKENS * HEADS * DIM];
    test_fill(7, values, sizeof values / sizeof *values);
    qsa_cache *cache = small_cache();
    qsa_seq seq;
    assert_int_equal(qsa_seq_open(cache, &seq), QSA_OK);
    for (uint32_t first = 0; first < TOKENS; first += CHUNK) {
        const uint32_t n = TOKENS - first < CHUNK ? TOKENS - first : CHUNK;
        const bool last = first + n == TOKENS;
        const qsa_strided rows = {values + (size_t)first * HEADS * DIM, HEADS * DIM, DIM}, none = {NULL, 0, 0};
        const qsa_strided queries = stores_only && !last ? none : rows;
        const qsa_tensors tensors = {.q = queries, .k = rows, .v = rows, .index_q = queries, .raw_key = rows};
        const qsa_output out = {stores_only && !last ? NULL : output, HEADS * DIM, DIM};
        const qsa_entry entry = {.seq = seq, .position = first, .tokens = n};
        qsa_step *step;
        assert_int_equal(qsa_step_begin(cache, &entry, 1, &step), QSA_OK);
        assert_int_equal(qsa_layer_begin(step, 0, &tensors, &out), QSA_OK);
        for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
            for (uint32_t part = 0; part < parts; part++)
                assert_int_equal(qsa_layer_phase(step, phase, part, parts), QSA_OK);
        assert_int_equal(qsa_step_commit(step, NULL), QSA_OK);
    }
    uint64_t digest;
    assert_int_equal(qsa_seq_digest(cache, seq, &digest), QSA_OK);
    assert_int_equal(qsa_cache_check(cache), QSA_OK);
    qsa_cache_destroy(cache);
    return digest;
}

static void storing_alone_stores_the_same_bits(void **state)
{
    (void)state;
    float expected[CHUNK * HEADS * DIM] = {0}, found[CHUNK * HEADS * DIM] = {0};
    uint64_t digest = feed(false, 1, expected);
    for (uint32_t parts = 1; parts <= 3; parts++) {
        assert_true(feed(true, parts, found) == digest);
        test_same_floats("output", expected, found, LAST * HEADS * DIM);
    }
}

static void storing_alone_does_no_work_of_queries_and_has_no_selection(void **state)
{
    (void)state;
    float values[HEADS * DIM] = {0};
    qsa_cache *cache = small_cache();
    qsa_seq seq;
    assert_int_equal(qsa_seq_open(cache, &seq), QSA_OK);
    const qsa_entry entry = {.seq = seq, .position = 0, .tokens = 1};
    const qsa_strided row = {values, HEADS * DIM, DIM};
    const qsa_tensors tensors = {.k = row, .v = row, .raw_key = row};
    const qsa_output none = {NULL, 0, 0};
    qsa_step *step;
    uint32_t groups[8], n;
    assert_int_equal(qsa_step_begin(cache, &entry, 1, &step), QSA_OK);
    assert_int_equal(qsa_step_layer(step, 0, &tensors, &none), QSA_OK);
    assert_int_equal(qsa_step_selection(step, 0, groups, &n), QSA_E_ORDER);
    assert_int_equal(qsa_step_commit(step, NULL), QSA_OK);
    qsa_counters counters;
    assert_int_equal(qsa_cache_counters(cache, &counters), QSA_OK);
    assert_true(counters.tokens == 1 && counters.k_rows_read == 0 && counters.groups_scored == 0);
    qsa_cache_destroy(cache);
}

static void storing_alone_refuses_what_it_stores(void **state)
{
    (void)state;
    float values[HEADS * DIM] = {0}, bad[HEADS * DIM] = {0};
    bad[3] = NAN;
    qsa_cache *cache = small_cache();
    qsa_seq seq;
    assert_int_equal(qsa_seq_open(cache, &seq), QSA_OK);
    const qsa_entry entry = {.seq = seq, .position = 0, .tokens = 1};
    const qsa_strided good_row = {values, HEADS * DIM, DIM}, bad_row = {bad, HEADS * DIM, DIM};
    const qsa_output none = {NULL, 0, 0};
    for (int i = 0; i < 3; i++) {
        const qsa_tensors tensors = {
            .k = i == 0 ? bad_row : good_row, .v = i == 1 ? bad_row : good_row, .raw_key = i == 2 ? bad_row : good_row};
        qsa_step *step;
        assert_int_equal(qsa_step_begin(cache, &entry, 1, &step), QSA_OK);
        assert_int_equal(qsa_step_layer(step, 0, &tensors, &none), QSA_E_NONFINITE);
        assert_int_equal(qsa_step_commit(step, NULL), QSA_E_NONFINITE);
    }
    qsa_tensors missing = {.k = good_row, .v = good_row};
    qsa_step *step;
    assert_int_equal(qsa_step_begin(cache, &entry, 1, &step), QSA_OK);
    assert_int_equal(qsa_layer_begin(step, 0, &missing, &none), QSA_E_ARGUMENT);
    qsa_step_abort(step);
    qsa_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storing_alone_stores_the_same_bits),
        cmocka_unit_test(storing_alone_does_no_work_of_queries_and_has_no_selection),
        cmocka_unit_test(storing_alone_refuses_what_it_stores),
    };
    return cmocka_run_group_tests_name("store_only", tests, NULL, NULL);
}
