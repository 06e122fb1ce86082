/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the forward pass on their own: elementary functions, the router's choice, n-gram rows, and our delta net
 * against ggml's. */
#include "support.h"

#include "model/batch_check.h"
#include "model/delta.h"
#include "model/elementwise.h"
#include "model/experts.h"
#include "model/hyper_low.h"
#include "model/library.h"
#include "model/ngram.h"
#include "model/state.h"
#include "model/thread_probe.h"
#include "model/vec.h"

#include <ggml-cpu.h>
#include <stdlib.h>

/* ---- elementary ---- */

static void exp_is_close_everywhere(void **state)
{
    (void)state;
    for (float x = -87.0f; x <= 88.0f; x += 0.00171f) {
        const double expected = exp((double)x);
        assert_true(fabs(exp_f32(x) - expected) <= 3e-7 * expected);
    }
    assert_true(exp_f32(0.0f) == 1.0f);
    assert_true(exp_f32(-1e30f) == exp_f32(-87.0f));
    assert_true(exp_f32(1e30f) == exp_f32(88.0f));
    assert_true(isnan(exp_f32(NAN)));
}

static void sigmoid_stays_within_its_limits(void **state)
{
    (void)state;
    assert_true(sigmoid_f32(0.0f) == 0.5f);
    assert_true(sigmoid_f32(200.0f) == 1.0f);
    assert_true(sigmoid_f32(-200.0f) > 0.0f && sigmoid_f32(-200.0f) < 1e-37f);
    assert_true(isnan(sigmoid_f32(NAN)));
}

/* Also where the number is at an end of the range, no number, or has a sum that only one rounding gets right. */
static void vectors_have_the_bits_of_single_numbers(void **state)
{
    (void)state;
    float x[VEC], y[VEC];
    for (float first = -95.0f; first < 95.0f; first += 0.0137f) {
        for (int i = 0; i < VEC; i++)
            x[i] = i == 1 && first < -94.0f ? NAN : first + 0.001f * (float)i;
        vec_store(y, vec_sigmoid(vec_load(x)));
        for (int i = 0; i < VEC; i++)
            assert_true(y[i] == sigmoid_f32(x[i]) || (isnan(y[i]) && isnan(x[i])));
        vec_store(y, vec_fma(vec_load(x), vec_load(x), vec_of(-first * first)));
        for (int i = 0; i < VEC; i++)
            assert_true(y[i] == fmaf(x[i], x[i], -first * first) || isnan(x[i]));
    }
    for (size_t n = 0; n <= VEC; n++) {
        vec_store_some(y, VEC, vec_of(7.0f));
        vec_store_some(y, n, vec_load_some(x, n));
        for (size_t i = 0; i < VEC; i++)
            assert_true(y[i] == (i < n ? x[i] : 7.0f) && vec_load_some(x, n)[i] == (i < n ? x[i] : 0.0f));
    }
}

static void shares_cover_everything_once(void **state)
{
    (void)state;
    for (size_t n = 0; n < 40; n++)
        for (int nth = 1; nth < 9; nth++) {
            size_t next = 0;
            for (int ith = 0; ith < nth; ith++) {
                const share s = share_of(n, ith, nth);
                assert_int_equal(s.begin, next);
                assert_true(s.end >= s.begin && s.end - s.begin <= n / (size_t)nth + 1);
                next = s.end;
            }
            assert_int_equal(next, n);
        }
}

/* ---- router ---- */

static void choice_breaks_ties_by_the_lowest_index(void **state)
{
    (void)state;
    static const float p[] = {0.1f, 0.3f, 0.1f, 0.3f, 0.1f, 0.1f};
    static const int32_t expected[] = {1, 3, 0, 2, 4, 5};
    for (size_t n = 1; n <= 6; n++) {
        int32_t chosen[6];
        experts_choose(p, 6, chosen, n);
        test_same_integers("chosen", expected, chosen, n);
    }
}

static void choice_equals_a_stable_sort(void **state)
{
    (void)state;
    enum { COUNT = 64, USED = 10 };
    for (uint64_t round = 0; round < 200; round++) {
        float p[COUNT];
        bool taken[COUNT] = {false};
        int32_t chosen[USED];
        for (uint64_t i = 0; i < COUNT; i++)
            p[i] = (float)(golden_bits64(round, i) % 12); /* many ties */
        experts_choose(p, COUNT, chosen, USED);
        for (int r = 0; r < USED; r++) {
            int32_t best = -1;
            for (int32_t i = 0; i < COUNT; i++)
                if (!taken[i] && (best < 0 || p[i] > p[best]))
                    best = i;
            taken[best] = true;
            assert_int_equal(chosen[r], best);
        }
    }
}

/* ---- n-grams ---- */

static const ngram_shape grams = {
    .size = 3,
    .heads_per_ngram = 2,
    .heads = 4,
    .eos = 9,
    .multipliers = {1000003, UINT64_C(4611686018427387), 17},
    .offsets = {0, 100, 300, 600},
    .sizes = {100, 199, 251, 65537},
};

static void assert_rows(const int32_t *history, uint64_t t1, uint64_t t2)
{
    int32_t rows[4];
    ngram_rows(&grams, history, rows);
    const uint64_t two = (uint64_t)history[0] * grams.multipliers[0] ^ t1 * grams.multipliers[1];
    const uint64_t three = two ^ t2 * grams.multipliers[2];
    assert_int_equal(rows[0], two % 100);
    assert_int_equal(rows[1], two % 199 + 100);
    assert_int_equal(rows[2], three % 251 + 300);
    assert_int_equal(rows[3], three % 65537 + 600);
}

static void ngram_history_ends_at_the_last_end_of_text(void **state)
{
    (void)state;
    assert_rows((const int32_t[]){5, 6, 7}, 6, 7);
    assert_rows((const int32_t[]){5, 6, 9}, 6, 9); /* the EOS itself reads as what it is */
    assert_rows((const int32_t[]){5, 9, 7}, 9, 9); /* nothing before it is seen */
    assert_rows((const int32_t[]){9, 6, 7}, 6, 7); /* an EOS does not cut its own history */
    assert_rows((const int32_t[]){9, 9, 7}, 9, 9);
}

/* ---- the delta net ---- */

enum { DIM = 80, KEY_HEADS = 2, VALUE_HEADS = 4, T = 137, CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * DIM };

enum { DELTA_BLOCKS = (DIM + STATE_COLUMNS - 1) / STATE_COLUMNS };

static float relative_difference(const float *a, const float *b, size_t n)
{
    float worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
        largest = fmaxf(largest, fabsf(a[i]));
    }
    return worst / largest;
}

/* A layer of which only the recurrence matters: identity projections, one tap, no norm that hides a scale. */
typedef struct delta_world {
    model_shape shape;
    model_weights weights;
    layer_weights layer;
    float conv[CHANNELS], norm[DIM], dt[VALUE_HEADS], a[VALUE_HEADS];
    struct ggml_context *context;
    unsigned char params[4096];
} delta_world;

static struct ggml_tensor *random_matrix(delta_world *w, int64_t columns, int64_t rows, uint64_t stream)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(w->context, GGML_TYPE_F32, columns, rows);
    test_fill(stream, t->data, (size_t)(columns * rows));
    for (int64_t i = 0; i < columns * rows; i++)
        ((float *)t->data)[i] *= 0.2f;
    return t;
}

static delta_world *new_world(void)
{
    delta_world *w = test_alloc(1, sizeof *w);
    const struct ggml_init_params params = {.mem_size = 64u << 20};
    w->context = ggml_init(params);
    w->shape = (model_shape){.layers = 1, .embedding = 64, .eps = 1e-6f};
    w->shape.delta = (delta_shape){1, DIM, KEY_HEADS, VALUE_HEADS, VALUE_HEADS * DIM, CHANNELS};
    w->weights.layers = &w->layer;
    for (int i = 0; i < CHANNELS; i++)
        w->conv[i] = 1.0f;
    for (int i = 0; i < DIM; i++)
        w->norm[i] = 1.0f;
    test_fill(1, w->dt, VALUE_HEADS);
    for (int i = 0; i < VALUE_HEADS; i++)
        w->a[i] = -0.3f * (float)(i + 1);
    w->layer.delta = (delta_weights){
        .qkv = random_matrix(w, 64, CHANNELS, 2),
        .gate = random_matrix(w, 64, VALUE_HEADS * DIM, 3),
        .alpha = random_matrix(w, 64, VALUE_HEADS, 4),
        .beta = random_matrix(w, 64, VALUE_HEADS, 5),
        .output = random_matrix(w, VALUE_HEADS * DIM, 64, 6),
        .conv = w->conv,
        .dt = w->dt,
        .a = w->a,
        .norm = w->norm,
    };
    return w;
}

/* The same layer in ggml's own operations, from the zero state. */
static struct ggml_tensor *by_ggml(delta_world *w, struct ggml_tensor *x, struct ggml_tensor **out_state)
{
    struct ggml_context *c = w->context;
    const delta_weights *d = &w->layer.delta;
    const size_t size = sizeof(float), row = CHANNELS * size;
    struct ggml_tensor *qkv = ggml_silu(c, ggml_mul_mat(c, d->qkv, x));
    struct ggml_tensor *qk = ggml_cont(c, ggml_view_3d(c, qkv, DIM, 2 * KEY_HEADS, T, DIM * size, row, 0));
    qk = ggml_scale(c, ggml_rms_norm(c, qk, 1e-6f / DIM), 1.0f / sqrtf(DIM));
    struct ggml_tensor *q = ggml_view_4d(c, qk, DIM, KEY_HEADS, T, 1, qk->nb[1], qk->nb[2], qk->nb[3], 0);
    struct ggml_tensor *k =
        ggml_view_4d(c, qk, DIM, KEY_HEADS, T, 1, qk->nb[1], qk->nb[2], qk->nb[3], KEY_HEADS * DIM * size);
    struct ggml_tensor *v =
        ggml_view_4d(c, qkv, DIM, VALUE_HEADS, T, 1, DIM * size, row, row * T, 2 * KEY_HEADS * DIM * size);
    struct ggml_tensor *dt = ggml_new_tensor_1d(c, GGML_TYPE_F32, VALUE_HEADS), *a = ggml_dup_tensor(c, dt);
    memcpy(dt->data, w->dt, sizeof w->dt);
    memcpy(a->data, w->a, sizeof w->a);
    struct ggml_tensor *g = ggml_mul(c, ggml_softplus(c, ggml_add(c, ggml_mul_mat(c, d->alpha, x), dt)), a);
    struct ggml_tensor *beta = ggml_sigmoid(c, ggml_mul_mat(c, d->beta, x));
    struct ggml_tensor *zero = ggml_set_zero(ggml_new_tensor_4d(c, GGML_TYPE_F32, DIM, DIM, VALUE_HEADS, 1));
    struct ggml_tensor *net = ggml_gated_delta_net(c, q, k, v, ggml_reshape_4d(c, g, 1, VALUE_HEADS, T, 1),
                                                   ggml_reshape_4d(c, beta, 1, VALUE_HEADS, T, 1), zero, 1);
    struct ggml_tensor *o = ggml_view_3d(c, net, DIM, VALUE_HEADS, T, DIM * size, VALUE_HEADS * DIM * size, 0);
    struct ggml_tensor *z = ggml_sigmoid(c, ggml_mul_mat(c, d->gate, x));
    o = ggml_mul(c, ggml_rms_norm(c, o, 1e-6f), ggml_reshape_3d(c, z, DIM, VALUE_HEADS, T));
    *out_state = net;
    return ggml_mul_mat(c, d->output, ggml_reshape_2d(c, o, VALUE_HEADS * DIM, T));
}

/* Ours in the order of theirs, which is transposed and not in blocks. */
static void unblock(const float *ours, float *out)
{
    for (size_t head = 0; head < VALUE_HEADS; head++)
        for (size_t v = 0; v < DIM; v++)
            for (size_t k = 0; k < DIM; k++) {
                const size_t block = head * DELTA_BLOCKS + v / STATE_COLUMNS;
                out[(head * DIM + v) * DIM + k] = ours[(block * DIM + k) * STATE_COLUMNS + v % STATE_COLUMNS];
            }
}

static void delta_net_agrees_with_ggml(void **state)
{
    (void)state;
    matrix_library_init();
    delta_world *w = new_world();
    const size_t floats = state_floats(&w->shape);
    assert_int_equal(floats, VALUE_HEADS * DELTA_BLOCKS * STATE_COLUMNS * DIM);
    float *before = test_alloc(floats, sizeof *before), *after = test_alloc(floats, sizeof *after);
    const batch_segment segment = {0, T, before, after};
    const batch_layout layout = {&segment, 1};
    graph_builder b = {
        .shape = &w->shape,
        .weights = &w->weights,
        .context = w->context,
        .layout = &layout,
        .tokens = T,
        .params = w->params,
        .params_bytes = sizeof w->params,
    };
    struct ggml_tensor *x = random_matrix(w, 64, T, 7), *net = NULL;
    struct ggml_tensor *ours = delta_layer(&b, 0, x), *theirs = by_ggml(w, x, &net);
    struct ggml_cgraph *graph = ggml_new_graph(w->context);
    ggml_build_forward_expand(graph, ours);
    ggml_build_forward_expand(graph, theirs);
    assert_int_equal(ggml_graph_compute_with_ctx(w->context, graph, 1), GGML_STATUS_SUCCESS);
    assert_true(relative_difference(theirs->data, ours->data, (size_t)T * 64) < 2e-5f);
    const float *their_state = (const float *)net->data + (size_t)T * VALUE_HEADS * DIM;
    float *our_state = test_alloc((size_t)VALUE_HEADS * DIM * DIM, sizeof *our_state);
    unblock(after, our_state);
    assert_true(relative_difference(their_state, our_state, (size_t)VALUE_HEADS * DIM * DIM) < 2e-5f);
    free(our_state);
    ggml_free(w->context);
    free(before);
    free(after);
    free(w);
}

/* ---- hyper-connections ---- */

/* No multiple of anything, and more than what is read at a time. */
enum { WIDTH = 604, STREAMS = 3, WIDE = WIDTH * STREAMS, MOST_RANK = 96, HYPER_TOKENS = 21 };

typedef struct hyper_world {
    struct ggml_context *context;
    model_shape shape;
    float norm[WIDE];
    hyper_weights weights;
    struct ggml_tensor *residual;
    struct ggml_tensor *x, *gains; /* what was found */
} hyper_world;

static struct ggml_tensor *random_tensor(struct ggml_context *c, uint64_t stream, int64_t n0, int64_t n1, int64_t n2)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(c, GGML_TYPE_F32, n0, n1, n2);
    test_fill(stream, t->data, (size_t)ggml_nelements(t));
    return t;
}

/* n of one token as the formula says it. */
static void expected_norm(const hyper_world *w, size_t t, double n[WIDE])
{
    const float *r = (const float *)w->residual->data + t * WIDE;
    for (size_t s = 0; s < STREAMS; s++) {
        double square = 0;
        for (size_t i = s * WIDTH; i < (s + 1) * WIDTH; i++)
            square += (double)r[i] * r[i];
        for (size_t i = s * WIDTH; i < (s + 1) * WIDTH; i++)
            n[i] = r[i] / sqrt(square / WIDTH + 1e-6) * w->norm[i];
    }
}

/* Row `row` of a matrix {WIDE, rows} times n, and of a matrix {rank, rows} times low. */
static double times_norm(const struct ggml_tensor *matrix, size_t row, const double n[WIDE])
{
    double sum = 0;
    for (size_t i = 0; i < WIDE; i++)
        sum += ((const float *)matrix->data)[row * WIDE + i] * n[i];
    return sum;
}

static double times_low(const struct ggml_tensor *matrix, size_t row, const double *low)
{
    const size_t rank = (size_t)matrix->ne[0];
    double sum = 0;
    for (size_t k = 0; k < rank; k++)
        sum += ((const float *)matrix->data)[row * rank + k] * low[k];
    return sum;
}

/* x and gains of one token likewise. */
static void expected_read(const hyper_world *w, size_t t, double x[WIDTH], double gains[STREAMS])
{
    double n[WIDE], low[MOST_RANK];
    expected_norm(w, t, n);
    for (size_t k = 0; k < w->shape.low_rank; k++) {
        low[k] = times_norm(w->weights.down, k, n) / STREAMS;
        low[k] /= 1 + exp(-low[k]);
    }
    for (size_t i = 0; i < WIDE; i++)
        x[i % WIDTH] = (i < WIDTH ? 0 : x[i % WIDTH]) + n[i] / (1 + exp(-times_low(w->weights.up, i, low))) / STREAMS;
    for (size_t s = 0; s < STREAMS; s++)
        gains[s] = times_norm(w->weights.inject, s, n);
}

static hyper_world *new_hyper_world(uint32_t rank)
{
    hyper_world *w = test_alloc(1, sizeof *w);
    w->context = ggml_init((struct ggml_init_params){.mem_size = 16u << 20});
    w->shape = (model_shape){.embedding = WIDTH, .streams = STREAMS, .low_rank = rank, .eps = 1e-6f};
    test_fill(1, w->norm, WIDE);
    w->weights = (hyper_weights){
        .norm = w->norm,
        .down = random_tensor(w->context, 2, WIDE, rank, 1),
        .up = random_tensor(w->context, 3, rank, WIDE, 1),
        .inject = random_tensor(w->context, 5, WIDE, STREAMS, 1),
    };
    for (int64_t i = 0; i < WIDE * (int64_t)rank; i++)
        ((float *)w->weights.down->data)[i] *= 0.1f;
    if (rank <= SHORT_RANK) {
        float *turned = test_alloc(hyper_turned_floats(&w->shape), sizeof *turned);
        hyper_turn(&w->shape, w->weights.up->data, turned);
        w->weights.up_turned = turned;
    }
    w->residual = random_tensor(w->context, 4, WIDTH, STREAMS, HYPER_TOKENS);
    return w;
}

static void free_hyper_world(hyper_world *w)
{
    ggml_free(w->context);
    free((void *)w->weights.up_turned);
    free(w);
}

/* Reads tokens [first, first + n). */
static void read_hyper(hyper_world *w, int64_t first, int64_t n, int threads)
{
    const model_weights none = {.least_columns = {0}};
    unsigned char params[1024];
    graph_builder b = {.shape = &w->shape,
                       .weights = &none,
                       .context = w->context,
                       .tokens = (uint32_t)n,
                       .params = params,
                       .params_bytes = sizeof params};
    struct ggml_tensor *r = w->residual;
    r = ggml_view_3d(w->context, r, WIDTH, STREAMS, n, r->nb[1], r->nb[2], (size_t)first * r->nb[2]);
    const hyper_input input = hyper_read(&b, &w->weights, r);
    struct ggml_cgraph *graph = ggml_new_graph(w->context);
    ggml_build_forward_expand(graph, input.x);
    ggml_build_forward_expand(graph, input.gains);
    assert_int_equal(ggml_graph_compute_with_ctx(w->context, graph, threads), GGML_STATUS_SUCCESS);
    w->x = input.x;
    w->gains = input.gains;
}

static const float *column(const struct ggml_tensor *t, size_t i)
{
    return (const float *)(const void *)((const char *)t->data + i * t->nb[1]);
}

/* Ranks on both sides of where the product is ours. */
static void hyper_connections_read_what_the_formula_says(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 7, 32, 64, 65, MOST_RANK};
    matrix_library_init();
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        hyper_world *w = new_hyper_world(ranks[i]);
        read_hyper(w, 0, HYPER_TOKENS, 1 + (int)(i % 3));
        for (size_t t = 0; t < HYPER_TOKENS; t++) {
            double x[WIDTH], gains[STREAMS];
            expected_read(w, t, x, gains);
            for (size_t j = 0; j < WIDTH; j++)
                assert_true(fabs(column(w->x, t)[j] - x[j]) < 1e-5);
            for (size_t s = 0; s < STREAMS; s++)
                assert_true(fabs(column(w->gains, t)[s] - gains[s]) < 1e-4);
        }
        free_hyper_world(w);
    }
}

static uint64_t hash_floats(const float *x, size_t n)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x100000001B3);
    }
    return hash;
}

/* A low rank's nodes are all our own, so their bits depend neither on the number of tokens and threads nor on the
 * machine. */
static void hyper_connections_of_a_low_rank_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    hyper_world *w = new_hyper_world(29);
    read_hyper(w, 0, HYPER_TOKENS, 1);
    struct ggml_tensor *x = w->x, *gains = w->gains;
    assert_int_equal(hash_floats(x->data, (size_t)WIDTH * HYPER_TOKENS), UINT64_C(0x6f9ba581920b5a28));
    assert_int_equal(hash_floats(column(gains, HYPER_TOKENS - 1), STREAMS), UINT64_C(0xb9decece52485b5f));
    for (int64_t t = 0, n = 1; t < HYPER_TOKENS; t += n, n = n % 11 + 1) {
        n = n < HYPER_TOKENS - t ? n : HYPER_TOKENS - t;
        read_hyper(w, t, n, 1 + (int)(n % 4));
        for (size_t i = 0; i < (size_t)n; i++) {
            assert_memory_equal(column(w->x, i), column(x, (size_t)t + i), WIDTH * sizeof(float));
            assert_memory_equal(column(w->gains, i), column(gains, (size_t)t + i), STREAMS * sizeof(float));
        }
    }
    free_hyper_world(w);
}

/* ---- batches ---- */

/* What is found of f32 matrices with these values; NULL: zeros. */
static int64_t least_columns_of(const float *values)
{
    enum { INNER = 256, MATRIX_ROWS = 32 };
    struct ggml_context *c = ggml_init((struct ggml_init_params){.mem_size = 1 << 20});
    struct ggml_tensor *matrix = ggml_set_zero(ggml_new_tensor_2d(c, GGML_TYPE_F32, INNER, MATRIX_ROWS));
    if (values != NULL)
        memcpy(matrix->data, values, ggml_nbytes(matrix));
    int64_t found[GGML_TYPE_COUNT];
    assert_int_equal(batch_check(c, found), QSA_OK);
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        assert_true(found[i] == 1 || (i == GGML_TYPE_F32 && found[i] == LEAST_COLUMNS));
    ggml_free(c);
    return found[GGML_TYPE_F32];
}

/* Sums of zeros are equal in any order: that must not pass for a proof. */
static void a_matrix_of_zeros_proves_nothing(void **state)
{
    (void)state;
    matrix_library_init();
    float *values = test_alloc(256 * 32, sizeof *values);
    test_fill(3, values, 256 * 32);
    assert_int_equal(least_columns_of(NULL), least_columns_of(values));
    free(values);
}

static void threads_can_be_probed(void **state)
{
    (void)state;
    assert_int_equal(thread_probe(0), QSA_OK);
    assert_int_equal(thread_probe(5), QSA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_close_everywhere),
        cmocka_unit_test(sigmoid_stays_within_its_limits),
        cmocka_unit_test(vectors_have_the_bits_of_single_numbers),
        cmocka_unit_test(shares_cover_everything_once),
        cmocka_unit_test(choice_breaks_ties_by_the_lowest_index),
        cmocka_unit_test(choice_equals_a_stable_sort),
        cmocka_unit_test(ngram_history_ends_at_the_last_end_of_text),
        cmocka_unit_test(delta_net_agrees_with_ggml),
        cmocka_unit_test(hyper_connections_read_what_the_formula_says),
        cmocka_unit_test(hyper_connections_of_a_low_rank_have_the_same_bits_everywhere),
        cmocka_unit_test(a_matrix_of_zeros_proves_nothing),
        cmocka_unit_test(threads_can_be_probed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
