/* The oracle's runs: counts of section 2, what is refused, and equalities that hold between different histories. */
#include "oracle/oracle.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 60, INDEX_HEADS = 2, INDEX_DIM = 8, Q_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, ROTARY = 8 };

/* A small shape with ratio 4 and two groups kept: the first query that drops something sees 12 tokens. */
typedef struct world {
    float index_norm[INDEX_DIM], main_norm[HEAD_DIM];
    float index_q[TOKENS * INDEX_HEADS * INDEX_DIM], raw_key[TOKENS * INDEX_DIM];
    float q[TOKENS * Q_HEADS * HEAD_DIM], k[TOKENS * KV_HEADS * HEAD_DIM], v[TOKENS * KV_HEADS * HEAD_DIM];
    oracle_shape shape;
    oracle_run run;
} world;

static world *new_world(void)
{
    world *w = test_alloc(1, sizeof *w);
    test_fill(1, w->index_q, TOKENS * INDEX_HEADS * INDEX_DIM);
    test_fill(2, w->raw_key, TOKENS * INDEX_DIM);
    test_fill(3, w->q, TOKENS * Q_HEADS * HEAD_DIM);
    test_fill(4, w->k, TOKENS * KV_HEADS * HEAD_DIM);
    test_fill(5, w->v, TOKENS * KV_HEADS * HEAD_DIM);
    for (int i = 0; i < HEAD_DIM; i++) {
        w->main_norm[i] = 1.0f + golden_value(6, (uint64_t)i) * 0.25f;
        w->index_norm[i % INDEX_DIM] = 1.0f + golden_value(7, (uint64_t)i) * 0.25f;
    }
    w->shape = (oracle_shape){.q_heads = Q_HEADS,
                              .kv_heads = KV_HEADS,
                              .head_dim = HEAD_DIM,
                              .index_heads = INDEX_HEADS,
                              .index_dim = INDEX_DIM,
                              .rotary_dim = ROTARY,
                              .sections = {2, 1, 1},
                              .ratio = 4,
                              .budget = 8,
                              .theta = 1e4f,
                              .eps = 1e-6f,
                              .index_q_norm = w->index_norm,
                              .index_k_norm = w->index_norm,
                              .q_norm = w->main_norm,
                              .k_norm = w->main_norm};
    oracle_open(&w->run, &w->shape, 0, 0, 0);
    return w;
}

static void free_world(world *w)
{
    oracle_close(&w->run);
    free(w);
}

static bool append(world *w, int n, oracle_refusal *refusal)
{
    size_t t = (size_t)w->run.n;
    oracle_tokens tokens = {.index_q = w->index_q + t * INDEX_HEADS * INDEX_DIM,
                            .raw_key = w->raw_key + t * INDEX_DIM,
                            .q = w->q + t * Q_HEADS * HEAD_DIM,
                            .k = w->k + t * KV_HEADS * HEAD_DIM,
                            .v = w->v + t * KV_HEADS * HEAD_DIM};
    return oracle_append(&w->run, n, &tokens, refusal);
}

static void append_all(world *w)
{
    oracle_refusal refusal;
    assert_true(append(w, TOKENS - w->run.n, &refusal));
}

static void same_results(const oracle_run *expected, const oracle_run *actual)
{
    float outputs[2][Q_HEADS * HEAD_DIM];
    assert_int_equal(expected->n, actual->n);
    size_t groups = (size_t)(expected->n / expected->shape->ratio);
    test_same_floats("pooled", expected->pooled, actual->pooled, groups * INDEX_DIM);
    for (int t = 0; t < expected->n; t++) {
        oracle_output(expected, t, outputs[0]);
        oracle_output(actual, t, outputs[1]);
        test_same_floats("output", outputs[0], outputs[1], Q_HEADS * HEAD_DIM);
    }
}

/* ---- section 2 ---- */

static void rows_have_the_sizes_of_the_table(void **state)
{
    (void)state;
    static const int32_t table[][4] = {/* n, groups, tail, tokens attended */
                                       {1, 0, 1, 1},         {2, 0, 2, 2},         {3, 0, 3, 3},
                                       {4, 1, 0, 4},         {2048, 512, 0, 2048}, {2051, 512, 3, 2051},
                                       {2052, 513, 0, 2048}, {2055, 513, 3, 2051}, {262144, 65536, 0, 2048}};
    const int n = 262144, dim = 2;
    float *keys = test_alloc((size_t)n * dim, sizeof *keys);
    float norm[2] = {1, 1};
    test_fill(9, keys, (size_t)n * dim);
    oracle_shape shape = {.q_heads = 1,
                          .kv_heads = 1,
                          .head_dim = 1,
                          .index_heads = 1,
                          .index_dim = dim,
                          .rotary_dim = 2,
                          .sections = {1, 0, 0},
                          .ratio = 4,
                          .budget = 2048,
                          .theta = 1e4f,
                          .eps = 1e-6f,
                          .index_q_norm = norm,
                          .index_k_norm = norm};
    oracle_tokens tokens = {.index_q = keys, .raw_key = keys};
    oracle_refusal refusal;
    oracle_run run;
    oracle_open(&run, &shape, 0, 0, 0);
    assert_true(oracle_append(&run, n, &tokens, &refusal));
    int32_t *row = test_alloc((size_t)oracle_row_max(&shape), sizeof *row);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int t = table[i][0] - 1, size = oracle_row(&run, t, row);
        assert_int_equal(oracle_end_group(&run, t), table[i][1]);
        assert_int_equal((t + 1) % 4, table[i][2]);
        assert_int_equal(size, table[i][3]);
        for (int j = 1; j < size; j++)
            assert_true(row[j - 1] < row[j]);
        assert_true(row[size - 1] <= t);
    }
    free(row);
    free(keys);
    oracle_close(&run);
}

static void rows_are_dense_until_the_budget_is_full(void **state)
{
    (void)state;
    world *w = new_world();
    int32_t row[11];
    append_all(w);
    for (int t = 0; t < 11; t++) {
        assert_int_equal(oracle_row(&w->run, t, row), t + 1);
        for (int j = 0; j <= t; j++)
            assert_int_equal(row[j], j);
    }
    assert_int_equal(oracle_row(&w->run, 11, row), 8);
    free_world(w);
}

static void window_moves_by_whole_groups(void **state)
{
    (void)state;
    world *w = new_world();
    int32_t row[11];
    append_all(w);
    w->run.window = 6;
    static const int first[] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3};
    for (int t = 0; t < 15; t++) {
        assert_int_equal(oracle_first_group(&w->run, t), first[t]);
        assert_int_equal(oracle_row(&w->run, t, row), t + 1 - 4 * first[t]);
        assert_int_equal(row[0], 4 * first[t]);
    }
    free_world(w);
}

/* ---- histories ---- */

static void chunks_and_rewinds_equal_one_shot(void **state)
{
    (void)state;
    world *one_shot = new_world(), *chunked = new_world();
    oracle_refusal refusal;
    append_all(one_shot);
    for (int n = 1; chunked->run.n + n <= TOKENS; n = n % 7 + 1) {
        assert_true(append(chunked, n, &refusal));
        if (n == 5)
            oracle_truncate(&chunked->run, chunked->run.n - 3);
    }
    append_all(chunked);
    same_results(&one_shot->run, &chunked->run);
    free_world(one_shot);
    free_world(chunked);
}

static void shift_by_the_frame_changes_no_bit(void **state)
{
    (void)state;
    world *plain = new_world(), *shifted = new_world();
    append_all(plain);
    oracle_open(&shifted->run, &shifted->shape, 1000, 1000, 0);
    append_all(shifted);
    same_results(&plain->run, &shifted->run);
    free_world(plain);
    free_world(shifted);
}

static void triples_count_from_the_frame(void **state)
{
    (void)state;
    int32_t triple[3] = {5, 5, 5};
    oracle_refusal refusal;
    for (int frame = -(1 << 24); frame <= 1 << 24; frame += 1 << 23) {
        world *w = new_world();
        oracle_open(&w->run, &w->shape, 0, frame + 5, 0);
        oracle_tokens tokens = {.index_q = w->index_q, .raw_key = w->raw_key, .triples = triple};
        float expected[ROTARY];
        assert_true(oracle_append(&w->run, 1, &tokens, &refusal));
        oracle_cos_sin(&w->shape, (int32_t[3]){-frame, -frame, -frame}, expected);
        test_same_floats("cos_sin", expected, w->run.cos_sin, ROTARY);
        free_world(w);
    }
    world *w = new_world();
    oracle_open(&w->run, &w->shape, 0, (1 << 24) + 6, 0);
    oracle_tokens tokens = {.index_q = w->index_q, .raw_key = w->raw_key, .triples = triple};
    assert_false(oracle_append(&w->run, 1, &tokens, &refusal));
    assert_string_equal(refusal.tensor, "triples");
    free_world(w);
}

/* ---- refusals ---- */

static void input_that_is_no_number_is_refused_and_named(void **state)
{
    (void)state;
    static const char *const names[] = {"index_q", "raw_key", "q", "k", "v"};
    static const size_t sizes[] = {INDEX_HEADS * INDEX_DIM, INDEX_DIM, Q_HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM,
                                   KV_HEADS * HEAD_DIM};
    const float bad[] = {NAN, INFINITY, -INFINITY, 0x1.000002p56f, -0x1.000002p56f};
    for (int tensor = 0; tensor < 5; tensor++) {
        for (int i = 0; i < 5; i++) {
            world *w = new_world();
            float *const tensors[] = {w->index_q, w->raw_key, w->q, w->k, w->v};
            float *element = &tensors[tensor][20 * sizes[tensor] + sizes[tensor] - 1], kept = *element;
            oracle_refusal refusal = {0};
            assert_true(append(w, 13, &refusal));
            *element = bad[i];
            assert_false(append(w, 30, &refusal));
            assert_int_equal(refusal.token, 7);
            assert_string_equal(refusal.tensor, names[tensor]);
            assert_int_equal(w->run.n, 13);
            *element = copysignf(0x1p56f, bad[i]);
            assert_true(append(w, 30, &refusal));
            *element = kept;
            free_world(w);
        }
    }
}

static void value_that_the_type_cannot_hold_is_refused(void **state)
{
    (void)state;
    static const oracle_kv types[] = {ORACLE_F16, ORACLE_Q8_0};
    for (int i = 0; i < 2; i++) {
        world *w = new_world();
        oracle_refusal refusal;
        w->shape.kv_type = types[i];
        w->v[3 * KV_HEADS * HEAD_DIM] = 65520.0f * 127;
        assert_false(append(w, TOKENS, &refusal));
        assert_int_equal(refusal.token, 3);
        assert_string_equal(refusal.tensor, "v");
        w->v[3 * KV_HEADS * HEAD_DIM] = 0;
        w->main_norm[HEAD_DIM - 1] = 0x1p40f; /* k is small when it enters, and large once it is normed */
        assert_false(append(w, TOKENS, &refusal));
        assert_string_equal(refusal.tensor, "k");
        free_world(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_sizes_of_the_table),
        cmocka_unit_test(rows_are_dense_until_the_budget_is_full),
        cmocka_unit_test(window_moves_by_whole_groups),
        cmocka_unit_test(chunks_and_rewinds_equal_one_shot),
        cmocka_unit_test(shift_by_the_frame_changes_no_bit),
        cmocka_unit_test(triples_count_from_the_frame),
        cmocka_unit_test(input_that_is_no_number_is_refused_and_named),
        cmocka_unit_test(value_that_the_type_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests_name("oracle_run", tests, NULL, NULL);
}
