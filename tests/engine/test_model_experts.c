/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture of experts: what the formula says, whatever is fused, and for each token the same bits however many
 * others chose its experts. */
#include "pass_fixture.h"

#include "model/experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A matrix has more rows, and the favourite expert more tokens, than one tile of a product takes. */
enum { E = 288, WIDTH = 96, SHARED = 32, EXPERTS = 7, USED = 3, TOKENS = 200 };

/* So many that the sum over experts runs in two pieces of E: more than 2^22 / (E * USED). */
enum { MANY = 4900 };

typedef struct world {
    model_shape shape;
    layer_weights layer;
    float *x; /* [MANY][E], the first TOKENS again and again */
} world;

static expert_matrices matrices(enum ggml_type type, uint64_t stream, size_t inner, size_t rows)
{
    const qsa_weights first = matrix_new(type, stream, inner, rows, EXPERTS, 0.2f);
    return (expert_matrices){first, rows * first.row_bytes};
}

static world new_world(enum ggml_type type, bool is_fused)
{
    world w = {
        .shape = {
            .embedding = E, .experts = EXPERTS, .experts_used = USED, .expert_width = WIDTH, .shared_width = SHARED}};
    expert_weights *e = &w.layer.experts;
    e->router = matrix_new(GGML_TYPE_F32, 1, E, EXPERTS, 1, 0.2f);
    e->gate = matrices(type, 2, E, is_fused ? 2 * WIDTH : WIDTH);
    if (is_fused) {
        e->gate.first.rows = WIDTH;
        e->up = e->gate;
        e->up.first.data = (const char *)e->up.first.data + WIDTH * e->up.first.row_bytes;
    } else {
        e->up = matrices(type, 3, E, WIDTH);
    }
    e->down = matrices(type, 4, WIDTH, E);
    e->shared_router = matrix_new(GGML_TYPE_F32, 5, E, 1, 1, 0.2f);
    e->shared_gate = matrix_new(GGML_TYPE_F32, 6, E, SHARED, 1, 0.2f);
    e->shared_up = matrix_new(GGML_TYPE_F32, 7, E, SHARED, 1, 0.2f);
    e->shared_down = matrix_new(GGML_TYPE_F32, 8, SHARED, E, 1, 0.2f);
    w.x = test_alloc((size_t)MANY * E, sizeof *w.x);
    test_fill(9, w.x, (size_t)TOKENS * E);
    /* Expert 5 is among the chosen of nearly all tokens. */
    const float *favourite = (const float *)e->router.data + (size_t)5 * E;
    for (size_t i = 0; i < TOKENS * E; i += E)
        for (size_t j = 0; j < E; j++)
            w.x[i + j] += favourite[j];
    for (size_t i = TOKENS * E; i < (size_t)MANY * E; i++)
        w.x[i] = w.x[i - TOKENS * E];
    return w;
}

static void free_world(world *w)
{
    expert_weights *e = &w->layer.experts;
    qsa_weights *all[] = {&e->router,      &e->gate.first, &e->down.first, &e->shared_router,
                          &e->shared_gate, &e->shared_up,  &e->shared_down};
    if (e->gate.bytes == WIDTH * e->gate.first.row_bytes)
        matrix_free(&e->up.first); /* not fused */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        matrix_free(all[i]);
    free(w->x);
}

/* y of tokens [first, first + n): [n][E], the caller's to free. */
static float *run(world *w, size_t first, size_t n, uint32_t threads)
{
    pass_fixture *f = pass_new(&w->shape, &w->layer, n, experts_blocks_bytes(&w->shape, &w->layer.experts, n),
                               experts_scratch_bytes(&w->shape, n));
    pass_threads(f, threads);
    memcpy(f->pass.x, w->x + first * E, n * E * sizeof(float));
    experts_layer(&f->pass, 0, n);
    float *found = test_alloc(n * E, sizeof *found);
    memcpy(found, f->pass.y, n * E * sizeof *found);
    pass_free(f);
    return found;
}

/* ---- the formula ---- */

static double dot(const float *row, const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += row[i] * x[i];
    return sum;
}

/* y += share * down(silu(gate x) * up x), of f32 matrices. */
static void add_expert(const float *gate, const float *up, const float *down, size_t width, const double *x,
                       double share, double *y)
{
    double said[WIDTH];
    for (size_t i = 0; i < width; i++) {
        const double g = dot(gate + i * E, x, E);
        said[i] = g / (1 + exp(-g)) * dot(up + i * E, x, E);
    }
    for (size_t i = 0; i < E; i++)
        y[i] += share * dot(down + i * width, said, width);
}

/* The largest, best first. */
static void choose(const double *p, size_t chosen[USED])
{
    bool is_taken[EXPERTS] = {false};
    for (size_t r = 0; r < USED; r++) {
        size_t best = EXPERTS;
        for (size_t i = 0; i < EXPERTS; i++)
            if (!is_taken[i] && (best == EXPERTS || p[i] > p[best]))
                best = i;
        is_taken[best] = true;
        chosen[r] = best;
    }
}

static void expected_token(const world *w, size_t token, double y[E])
{
    const expert_weights *e = &w->layer.experts;
    double x[E], p[EXPERTS], total = 0;
    size_t chosen[USED];
    for (size_t i = 0; i < E; i++)
        x[i] = w->x[token * E + i];
    memset(y, 0, E * sizeof *y);
    for (size_t i = 0; i < EXPERTS; i++)
        p[i] = exp(dot((const float *)e->router.data + i * E, x, E));
    choose(p, chosen);
    for (size_t r = 0; r < USED; r++)
        total += p[chosen[r]];
    for (size_t r = 0; r < USED; r++) {
        const size_t c = chosen[r], size = (size_t)E * WIDTH;
        const float *gate = (const float *)e->gate.first.data + c * e->gate.bytes / sizeof(float);
        const float *up = (const float *)e->up.first.data + c * e->up.bytes / sizeof(float);
        add_expert(gate, up, (const float *)e->down.first.data + c * size, WIDTH, x, p[chosen[r]] / total, y);
    }
    const double gate = 1 / (1 + exp(-dot(e->shared_router.data, x, E)));
    add_expert(e->shared_gate.data, e->shared_up.data, e->shared_down.data, SHARED, x, gate, y);
}

static void check_formula(bool is_fused)
{
    world w = new_world(GGML_TYPE_F32, is_fused);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        float *found = run(&w, 0, TOKENS, threads);
        for (size_t t = 0; t < TOKENS; t++) {
            double expected[E];
            expected_token(&w, t, expected);
            for (size_t i = 0; i < E; i++)
                if (!(fabs(found[t * E + i] - expected[i]) < 1e-3 * (1 + fabs(expected[i]))))
                    fail_msg("token %zu, element %zu: expected %g, found %g", t, i, expected[i],
                             (double)found[t * E + i]);
        }
        free(found);
    }
    free_world(&w);
}

static void experts_say_what_the_formula_says(void **state)
{
    (void)state;
    check_formula(false);
}

static void fused_experts_say_it_too(void **state)
{
    (void)state;
    check_formula(true);
}

/* ---- one text whatever the batch ---- */

static void check_batches(enum ggml_type type)
{
    static const size_t sizes[] = {1, 2, 3, 17, 129};
    world w = new_world(type, false);
    float *expected = run(&w, 0, TOKENS, 1);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t first = 0; first + sizes[s] <= TOKENS; first += 31) {
            float *found = run(&w, first, sizes[s], 1 + (uint32_t)(first % 3));
            test_same_floats("experts of a batch", expected + first * E, found, sizes[s] * E);
            free(found);
        }
    free(expected);
    free_world(&w);
}

static void batches_do_not_matter(void **state)
{
    (void)state;
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                           GGML_TYPE_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_batches(types[i]);
}

static void very_many_tokens_have_the_bits_of_few(void **state)
{
    (void)state;
    world w = new_world(GGML_TYPE_Q8_0, false);
    float *expected = run(&w, 0, TOKENS, 1), *found = run(&w, 0, MANY, 2);
    for (size_t first = 0; first < MANY; first += TOKENS) {
        const size_t n = MANY - first < TOKENS ? MANY - first : TOKENS;
        test_same_floats("experts of very many tokens", expected, found + first * E, n * E);
    }
    free(expected);
    free(found);
    free_world(&w);
}

/* ---- order ---- */

static void pairs_are_grouped_in_order(void **state)
{
    (void)state;
    static const int32_t chosen[] = {4, 1, 0, 4, 1, 4}, place[] = {3, 1, 0, 4, 2, 5};
    static const uint32_t first[] = {0, 1, 3, 3, 3, 6}, column[] = {1, 0, 2, 0, 1, 2};
    uint32_t found_first[6], found_column[6];
    int32_t found_place[6];
    experts_group(chosen, 6, 2, 5, &(grouping){found_first, found_column, found_place});
    assert_memory_equal(first, found_first, sizeof first);
    assert_memory_equal(column, found_column, sizeof column);
    assert_memory_equal(place, found_place, sizeof place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_say_what_the_formula_says),
        cmocka_unit_test(fused_experts_say_it_too),
        cmocka_unit_test(batches_do_not_matter),
        cmocka_unit_test(very_many_tokens_have_the_bits_of_few),
        cmocka_unit_test(pairs_are_grouped_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
