/* Rows and attention through the cache: at every length, against the dense oracle below the cut and the naive one
 * beyond it. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4200, CUT = 2051 };

/* ---- rows of the released ratio and budget, at every length ---- */

static bool beats(const float *scores, uint32_t a, uint32_t b)
{
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

/* Every member beats every other candidate: then the set is the one of the total order. */
static void members_are_the_best(const float *scores, uint32_t candidates, const uint32_t *groups, uint32_t n_groups)
{
    uint32_t next = 0, worst = groups[0];
    for (uint32_t i = 1; i < n_groups; i++)
        worst = beats(scores, worst, groups[i]) ? groups[i] : worst;
    for (uint32_t g = 0; g < candidates; g++)
        if (next < n_groups && groups[next] == g)
            next++;
        else if (beats(scores, g, worst))
            fail_msg("of %u candidates %u is no member, and %u is", candidates, g, worst);
    assert_int_equal(next, n_groups);
}

static void rows_through_a_cache_are_right_at_every_length(void **state)
{
    (void)state;
    qsa_config config = world_narrow();
    world_batch batch = world_batch_open(&config, LONGEST, 1);
    world_solo(&config, 11, &batch, 0, (world_way){.parts = 2});
    const oracle_shape shape = world_oracle_shape(&config);
    oracle_run run;
    oracle_open(&run, &shape, 11, 0, 0);
    world_oracle_append(&run, &batch, 0, 0, LONGEST, NULL);
    float scores[LONGEST / 4];
    uint32_t row[CUT + 1], n_row;
    for (uint32_t t = 0; t < LONGEST; t++) {
        const uint32_t *groups = batch.groups + (size_t)t * 512, n = t + 1, n_groups = batch.n_groups[t];
        assert_int_equal(n_groups, n / 4 < 512 ? n / 4 : 512);
        world_ok(qsa_selected_tokens(groups, n_groups, 4, n, row, &n_row));
        assert_int_equal(n_row, 4 * n_groups + n % 4);
        for (uint32_t i = 0; i < n_row; i++)
            assert_true(n <= CUT ? row[i] == i : i == 0 || row[i] > row[i - 1]);
        oracle_scores(&run, (int)t, scores);
        if (n_groups > 0)
            members_are_the_best(scores, n / 4, groups, n_groups);
        if (t % 211 == 0 || (n >= CUT - 2 && n <= CUT + 6))
            assert_true(world_oracle_agrees(&run, (int)t, &batch, t, 0));
    }
    oracle_close(&run);
    world_batch_close(&batch);
}

/* ---- sparse = dense below the cut ---- */

typedef struct stored {
    float *k, *v; /* [tokens][kv_heads][head_dim] as stored, widened */
} stored;

static stored read_all(const qsa_config *config, qsa_cache *cache, qsa_seq seq, uint32_t tokens)
{
    const size_t width = (size_t)config->kv_heads * config->head_dim;
    stored s = {test_alloc(tokens * width, sizeof(float)), test_alloc(tokens * width, sizeof(float))};
    world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_K, (qsa_span){0, tokens}, s.k));
    world_ok(qsa_seq_read(cache, seq, 0, QSA_TENSOR_V, (qsa_span){0, tokens}, s.v));
    return s;
}

/* The output of token t is that of the dense oracle over everything up to it. */
static void dense_agrees(const qsa_config *config, const qsa_rotary *rotary, const world_batch *batch, uint32_t t,
                         const stored *s)
{
    uint32_t width;
    const float *q = world_input(batch, WORLD_Q, t, 0, &width);
    float *rotated = test_alloc(width, sizeof *rotated), *out = test_alloc(width, sizeof *out);
    float cos[QSA_MAX_DIM / 2], sin[QSA_MAX_DIM / 2];
    const int32_t p = (int32_t)t;
    world_ok(qsa_rotary_cos_sin(rotary, (qsa_triple){p, p, p}, cos, sin));
    world_ok(qsa_norm_rotate(q, config->q_heads, config->head_dim, NULL, config->eps, rotary->pairs, cos, sin,
                             QSA_PROFILE_F32, rotated));
    world_ok(qsa_attend_dense(config, rotated, s->k, s->v, t + 1, out));
    if (memcmp(out, batch->out + (size_t)t * width, width * sizeof *out) != 0)
        fail_msg("n = %u: the sparse output is not the dense one", t + 1);
    free(rotated);
    free(out);
}

static void sparse_is_dense_at_every_length_up_to_the_cut(void **state)
{
    (void)state;
    for (int kv = 0; kv < QSA_KV_TYPE_COUNT; kv++) {
        qsa_config config = world_narrow();
        world_kv_type(&config, kv);
        config.q_heads = 2;
        world_batch batch = world_batch_open(&config, CUT, 1);
        qsa_cache *cache = world_create(&config);
        qsa_seq seq = world_open(cache);
        qsa_rotary rotary;
        world_ok(qsa_rotary_init(&config, &rotary));
        world_feed(cache, seq, 0, &batch, 0, CUT, 463, (world_way){.parts = 2});
        stored s = read_all(&config, cache, seq, CUT);
        for (uint32_t t = 0; t < CUT; t++)
            dense_agrees(&config, &rotary, &batch, t, &s);
        free(s.k);
        free(s.v);
        qsa_cache_destroy(cache);
        world_batch_close(&batch);
    }
}

/* Stores tokens without asking for output. */
static void store_only(qsa_cache *cache, qsa_seq seq, const world_batch *batch, uint32_t n)
{
    qsa_step *step;
    qsa_entry entry = {.seq = seq, .position = 0, .tokens = n};
    qsa_tensors tensors = world_tensors(batch, 0, 0);
    const qsa_output nowhere = {0};
    world_ok(qsa_step_begin(cache, &entry, 1, &step));
    world_ok(qsa_step_layer(step, 0, &tensors, &nowhere));
    world_ok(qsa_step_commit(step, NULL));
}

enum { AROUND_FIRST = 2043, AROUND_END = 2060 };

/* The released dimensions, with the fastest kernels there are: decode, a chunk, and parts give the same; up to 2,051
 * tokens the dense bits, then the naive oracle's. */
static void released_shape_around_the_cut(void **state)
{
    (void)state;
    qsa_config config = world_released();
    world_batch batch = world_batch_open(&config, AROUND_END, 1), chunk = world_batch_open(&config, AROUND_END, 1);
    qsa_cache *cache = world_create(&config);
    qsa_seq seq = world_open(cache);
    qsa_rotary rotary;
    world_ok(qsa_rotary_init(&config, &rotary));
    const oracle_shape shape = world_oracle_shape(&config);
    oracle_run run;
    oracle_open(&run, &shape, 0, 0, 0);
    world_oracle_append(&run, &batch, 0, 0, AROUND_END, NULL);
    store_only(cache, seq, &batch, AROUND_FIRST);
    for (uint32_t t = AROUND_FIRST; t < AROUND_END; t++)
        world_feed(cache, seq, t, &batch, t, 1, 1, (world_way){.parts = 1 + t % 3});
    stored s = read_all(&config, cache, seq, AROUND_END);
    for (uint32_t t = AROUND_FIRST; t < AROUND_END; t++)
        if (t < CUT)
            dense_agrees(&config, &rotary, &batch, t, &s);
        else
            assert_true(world_oracle_agrees(&run, (int)t, &batch, t, 0));
    assert_int_equal(batch.n_groups[2051], 512); /* 2,052 tokens: the first query that drops something */
    world_ok(qsa_seq_rewind(cache, seq, AROUND_FIRST));
    world_feed(cache, seq, AROUND_FIRST, &chunk, AROUND_FIRST, AROUND_END - AROUND_FIRST, 0, (world_way){.parts = 3});
    world_same("chunk", &batch, AROUND_FIRST, &chunk, AROUND_FIRST, AROUND_END - AROUND_FIRST);
    free(s.k);
    free(s.v);
    oracle_close(&run);
    qsa_cache_destroy(cache);
    world_batch_close(&batch);
    world_batch_close(&chunk);
}

/* Any row and the dense row are the same code; a row that is none is refused. */
static void attend_refuses_what_is_no_row(void **state)
{
    (void)state;
    qsa_config config = world_mini();
    float q[16] = {1}, k[4 * 8] = {2}, v[4 * 8] = {3}, out[16] = {77};
    const uint32_t good[] = {0, 2, 3}, twice[] = {0, 2, 2}, back[] = {2, 0};
    world_refused(QSA_E_ARGUMENT, "place 2", qsa_attend_selected(&config, q, k, v, twice, 3, out));
    world_refused(QSA_E_ARGUMENT, "place 1", qsa_attend_selected(&config, q, k, v, back, 2, out));
    world_refused(QSA_E_ARGUMENT, "no token", qsa_attend_selected(&config, q, k, v, good, 0, out));
    world_refused(QSA_E_ARGUMENT, "no token", qsa_attend_dense(&config, q, k, v, 0, out));
    world_refused(QSA_E_ARGUMENT, "NULL", qsa_attend_selected(&config, q, k, v, NULL, 3, out));
    q[11] = 0x1p57f;
    world_refused(QSA_E_NONFINITE, "head 1", qsa_attend_selected(&config, q, k, v, good, 3, out));
    q[11] = 0;
    v[1 * 8] = test_float(0x7fc00000); /* not in the row: never looked at */
    world_ok(qsa_attend_selected(&config, q, k, v, good, 3, out));
    out[0] = 77;
    world_refused(QSA_E_NONFINITE, "selected token 1", qsa_attend_dense(&config, q, k, v, 4, out));
    k[3 * 8 + 7] = -0x1p57f;
    world_refused(QSA_E_NONFINITE, "selected token 2", qsa_attend_selected(&config, q, k, v, good, 3, out));
    config.budget = 3;
    world_refused(QSA_E_ARGUMENT, "budget", qsa_attend_selected(&config, q, k, v, good, 3, out));
    assert_true(out[0] == 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_through_a_cache_are_right_at_every_length),
        cmocka_unit_test(sparse_is_dense_at_every_length_up_to_the_cut),
        cmocka_unit_test(released_shape_around_the_cut),
        cmocka_unit_test(attend_refuses_what_is_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
