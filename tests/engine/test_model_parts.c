/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the forward pass on their own: n-gram rows, our delta net against ggml's, hyper-connections against their
 * formula. */
#include "pass_fixture.h"

#include "model/delta.h"
#include "model/hyper.h"
#include "model/ngram.h"
#include "model/state.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

enum { E = 64, DIM = 80, KEY_HEADS = 2, VALUE_HEADS = 4, T = 137, CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * DIM };

enum { DELTA_BLOCKS = (DIM + OPS_STATE_COLUMNS - 1) / OPS_STATE_COLUMNS };

static float relative_difference(const float *a, const float *b, size_t n)
{
    float worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        worst = fmaxf(worst, fabsf(a[i] - b[i]));
        largest = fmaxf(largest, fabsf(a[i]));
    }
    return worst / largest;
}

/* A layer of which only the recurrence matters: one tap, no norm that hides a scale. */
typedef struct delta_world {
    model_shape shape;
    layer_weights layer;
    float conv[CHANNELS], norm[DIM], dt[VALUE_HEADS], a[VALUE_HEADS], x[T * E];
} delta_world;

static delta_world *new_world(void)
{
    delta_world *w = test_alloc(1, sizeof *w);
    w->shape = (model_shape){.layers = 1, .embedding = E, .eps = 1e-6f};
    w->shape.delta = (delta_shape){1, DIM, KEY_HEADS, VALUE_HEADS, VALUE_HEADS * DIM, CHANNELS};
    for (int i = 0; i < CHANNELS; i++)
        w->conv[i] = 1.0f;
    for (int i = 0; i < DIM; i++)
        w->norm[i] = 1.0f;
    test_fill(1, w->dt, VALUE_HEADS);
    for (int i = 0; i < VALUE_HEADS; i++)
        w->a[i] = -0.3f * (float)(i + 1);
    test_fill(7, w->x, T * E);
    for (int i = 0; i < T * E; i++)
        w->x[i] *= 0.2f;
    w->layer.delta = (delta_weights){
        .qkv = matrix_new(GGML_TYPE_F32, 2, E, CHANNELS, 1, 0.2f),
        .gate = matrix_new(GGML_TYPE_F32, 3, E, VALUE_HEADS * DIM, 1, 0.2f),
        .alpha = matrix_new(GGML_TYPE_F32, 4, E, VALUE_HEADS, 1, 0.2f),
        .beta = matrix_new(GGML_TYPE_F32, 5, E, VALUE_HEADS, 1, 0.2f),
        .output = matrix_new(GGML_TYPE_F32, 6, VALUE_HEADS * DIM, E, 1, 0.2f),
        .conv = w->conv,
        .dt = w->dt,
        .a = w->a,
        .norm = w->norm,
    };
    return w;
}

static void free_world(delta_world *w)
{
    qsa_weights *all[] = {&w->layer.delta.qkv, &w->layer.delta.gate, &w->layer.delta.alpha, &w->layer.delta.beta,
                          &w->layer.delta.output};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        matrix_free(all[i]);
    free(w);
}

static struct ggml_tensor *leaf(struct ggml_context *c, int64_t n0, int64_t n1, const void *values)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(c, GGML_TYPE_F32, n0, n1);
    memcpy(t->data, values, ggml_nbytes(t));
    return t;
}

static struct ggml_tensor *times(struct ggml_context *c, const qsa_weights *matrix, struct ggml_tensor *x)
{
    return ggml_mul_mat(c, leaf(c, (int64_t)matrix->inner, (int64_t)matrix->rows, matrix->data), x);
}

/* The same layer in ggml's own operations, from the zero state. */
static struct ggml_tensor *by_ggml(const delta_world *w, struct ggml_context *c, struct ggml_tensor **out_state)
{
    const delta_weights *d = &w->layer.delta;
    const size_t size = sizeof(float), row = CHANNELS * size;
    struct ggml_tensor *x = leaf(c, E, T, w->x);
    struct ggml_tensor *qkv = ggml_silu(c, times(c, &d->qkv, x));
    struct ggml_tensor *qk = ggml_cont(c, ggml_view_3d(c, qkv, DIM, 2 * KEY_HEADS, T, DIM * size, row, 0));
    qk = ggml_scale(c, ggml_rms_norm(c, qk, 1e-6f / DIM), 1.0f / sqrtf(DIM));
    struct ggml_tensor *q = ggml_view_4d(c, qk, DIM, KEY_HEADS, T, 1, qk->nb[1], qk->nb[2], qk->nb[3], 0);
    struct ggml_tensor *k =
        ggml_view_4d(c, qk, DIM, KEY_HEADS, T, 1, qk->nb[1], qk->nb[2], qk->nb[3], KEY_HEADS * DIM * size);
    struct ggml_tensor *v =
        ggml_view_4d(c, qkv, DIM, VALUE_HEADS, T, 1, DIM * size, row, row * T, 2 * KEY_HEADS * DIM * size);
    struct ggml_tensor *dt = leaf(c, VALUE_HEADS, 1, w->dt), *a = leaf(c, VALUE_HEADS, 1, w->a);
    struct ggml_tensor *g = ggml_mul(c, ggml_softplus(c, ggml_add(c, times(c, &d->alpha, x), dt)), a);
    struct ggml_tensor *beta = ggml_sigmoid(c, times(c, &d->beta, x));
    struct ggml_tensor *zero = ggml_set_zero(ggml_new_tensor_4d(c, GGML_TYPE_F32, DIM, DIM, VALUE_HEADS, 1));
    struct ggml_tensor *net = ggml_gated_delta_net(c, q, k, v, ggml_reshape_4d(c, g, 1, VALUE_HEADS, T, 1),
                                                   ggml_reshape_4d(c, beta, 1, VALUE_HEADS, T, 1), zero, 1);
    struct ggml_tensor *o = ggml_view_3d(c, net, DIM, VALUE_HEADS, T, DIM * size, VALUE_HEADS * DIM * size, 0);
    struct ggml_tensor *z = ggml_sigmoid(c, times(c, &d->gate, x));
    o = ggml_mul(c, ggml_rms_norm(c, o, 1e-6f), ggml_reshape_3d(c, z, DIM, VALUE_HEADS, T));
    *out_state = net;
    return times(c, &d->output, ggml_reshape_2d(c, o, VALUE_HEADS * DIM, T));
}

/* Ours in the order of theirs, which is transposed and not in blocks. */
static void unblock(const float *ours, float *out)
{
    for (size_t head = 0; head < VALUE_HEADS; head++)
        for (size_t v = 0; v < DIM; v++)
            for (size_t k = 0; k < DIM; k++) {
                const size_t block = head * DELTA_BLOCKS + v / OPS_STATE_COLUMNS;
                out[(head * DIM + v) * DIM + k] = ours[(block * DIM + k) * OPS_STATE_COLUMNS + v % OPS_STATE_COLUMNS];
            }
}

static void delta_net_agrees_with_ggml(void **state)
{
    (void)state;
    delta_world *w = new_world();
    const size_t floats = state_floats(&w->shape);
    assert_int_equal(floats, VALUE_HEADS * DELTA_BLOCKS * OPS_STATE_COLUMNS * DIM);
    float *before = test_alloc(floats, sizeof *before), *after = test_alloc(floats, sizeof *after);
    pass_fixture *f =
        pass_new(&w->shape, &w->layer, T, delta_blocks_bytes(&w->layer.delta, T), delta_scratch_bytes(&w->shape, T));
    pass_threads(f, 3);
    f->segment.before = before;
    f->segment.after = after;
    memcpy(f->pass.x, w->x, sizeof w->x);
    delta_layer(&f->pass, 0);
    struct ggml_context *c = ggml_init((struct ggml_init_params){.mem_size = 64u << 20});
    struct ggml_tensor *net = NULL, *theirs = by_ggml(w, c, &net);
    struct ggml_cgraph *graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, theirs);
    assert_int_equal(ggml_graph_compute_with_ctx(c, graph, 1), GGML_STATUS_SUCCESS);
    assert_true(relative_difference(theirs->data, f->pass.y, (size_t)T * E) < 2e-5f);
    const float *their_state = (const float *)net->data + (size_t)T * VALUE_HEADS * DIM;
    float *our_state = test_alloc((size_t)VALUE_HEADS * DIM * DIM, sizeof *our_state);
    unblock(after, our_state);
    assert_true(relative_difference(their_state, our_state, (size_t)VALUE_HEADS * DIM * DIM) < 2e-5f);
    free(our_state);
    ggml_free(c);
    pass_free(f);
    free(before);
    free(after);
    free_world(w);
}

/* ---- hyper-connections ---- */

/* No multiple of anything, and more tokens than are read at a time. */
enum { WIDTH = 604, STREAMS = 3, WIDE = WIDTH * STREAMS, MOST_RANK = 96, HYPER_TOKENS = 261 };

typedef struct hyper_world {
    model_shape shape;
    float norm[WIDE];
    hyper_weights weights;
    float residual[HYPER_TOKENS * WIDE];
    float x[HYPER_TOKENS * WIDTH], gains[HYPER_TOKENS * STREAMS]; /* what was found */
} hyper_world;

/* n of one token as the formula says it. */
static void expected_norm(const hyper_world *w, size_t t, double n[WIDE])
{
    const float *r = w->residual + t * WIDE;
    for (size_t s = 0; s < STREAMS; s++) {
        double square = 0;
        for (size_t i = s * WIDTH; i < (s + 1) * WIDTH; i++)
            square += (double)r[i] * r[i];
        for (size_t i = s * WIDTH; i < (s + 1) * WIDTH; i++)
            n[i] = r[i] / sqrt(square / WIDTH + 1e-6) * w->norm[i];
    }
}

/* Row `row` of a matrix {WIDE, rows} times n, and of a matrix {rank, rows} times low. */
static double times_norm(const qsa_weights *matrix, size_t row, const double n[WIDE])
{
    double sum = 0;
    for (size_t i = 0; i < WIDE; i++)
        sum += ((const float *)matrix->data)[row * WIDE + i] * n[i];
    return sum;
}

static double times_low(const qsa_weights *matrix, size_t row, const double *low)
{
    const size_t rank = matrix->inner;
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
        low[k] = times_norm(&w->weights.down, k, n) / STREAMS;
        low[k] /= 1 + exp(-low[k]);
    }
    for (size_t i = 0; i < WIDE; i++)
        x[i % WIDTH] = (i < WIDTH ? 0 : x[i % WIDTH]) + n[i] / (1 + exp(-times_low(&w->weights.up, i, low))) / STREAMS;
    for (size_t s = 0; s < STREAMS; s++)
        gains[s] = times_norm(&w->weights.inject, s, n);
}

static hyper_world *new_hyper_world(uint32_t rank)
{
    hyper_world *w = test_alloc(1, sizeof *w);
    w->shape = (model_shape){.embedding = WIDTH, .streams = STREAMS, .low_rank = rank, .eps = 1e-6f};
    test_fill(1, w->norm, WIDE);
    w->weights = (hyper_weights){
        .norm = w->norm,
        .down = matrix_new(GGML_TYPE_F32, 2, WIDE, rank, 1, 0.1f),
        .up = matrix_new(GGML_TYPE_F32, 3, rank, WIDE, 1, 1.0f),
        .inject = matrix_new(GGML_TYPE_F32, 5, WIDE, STREAMS, 1, 1.0f),
    };
    test_fill(4, w->residual, HYPER_TOKENS * WIDE);
    return w;
}

static void free_hyper_world(hyper_world *w)
{
    matrix_free(&w->weights.down);
    matrix_free(&w->weights.up);
    matrix_free(&w->weights.inject);
    free(w);
}

/* Reads tokens [first, first + n). */
static void read_hyper(hyper_world *w, size_t first, size_t n, uint32_t threads)
{
    pass_fixture *f =
        pass_new(&w->shape, NULL, n, hyper_blocks_bytes(&w->weights, n), hyper_scratch_bytes(&w->shape, n));
    pass_threads(f, threads);
    memcpy(f->pass.residual, w->residual + first * WIDE, n * WIDE * sizeof(float));
    hyper_read(&f->pass, &w->weights, n);
    memcpy(w->x + first * WIDTH, f->pass.x, n * WIDTH * sizeof(float));
    memcpy(w->gains + first * STREAMS, f->pass.gains, n * STREAMS * sizeof(float));
    pass_free(f);
}

static void hyper_connections_read_what_the_formula_says(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 7, 32, 65, MOST_RANK};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        hyper_world *w = new_hyper_world(ranks[i]);
        read_hyper(w, 0, HYPER_TOKENS, 1 + (uint32_t)(i % 3));
        for (size_t t = 0; t < HYPER_TOKENS; t++) {
            double x[WIDTH], gains[STREAMS];
            expected_read(w, t, x, gains);
            for (size_t j = 0; j < WIDTH; j++)
                assert_true(fabs(w->x[t * WIDTH + j] - x[j]) < 1e-5);
            for (size_t s = 0; s < STREAMS; s++)
                assert_true(fabs(w->gains[t * STREAMS + s] - gains[s]) < 1e-4);
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

/* Whatever the number of tokens, the threads and the machine. */
static void hyper_connections_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    hyper_world *w = new_hyper_world(29), *parts = new_hyper_world(29);
    read_hyper(w, 0, HYPER_TOKENS, 1);
    assert_int_equal(hash_floats(w->x, (size_t)WIDTH * HYPER_TOKENS), UINT64_C(0xa3f08afcf7a2c305));
    assert_int_equal(hash_floats(w->gains, STREAMS * HYPER_TOKENS), UINT64_C(0xba31f43233c261eb));
    for (size_t t = 0, n = 1; t < HYPER_TOKENS; t += n, n = n % 11 + 1) {
        n = n < HYPER_TOKENS - t ? n : HYPER_TOKENS - t;
        read_hyper(parts, t, n, 1 + (uint32_t)(n % 4));
    }
    test_same_floats("x", w->x, parts->x, (size_t)WIDTH * HYPER_TOKENS);
    test_same_floats("gains", w->gains, parts->gains, (size_t)STREAMS * HYPER_TOKENS);
    free_hyper_world(w);
    free_hyper_world(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ngram_history_ends_at_the_last_end_of_text),
        cmocka_unit_test(delta_net_agrees_with_ggml),
        cmocka_unit_test(hyper_connections_read_what_the_formula_says),
        cmocka_unit_test(hyper_connections_have_the_same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
