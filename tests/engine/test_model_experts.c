/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture of experts: what the formula says, whatever is fused, and for each token the same bits however many
 * others chose its experts. */
#include "support.h"

#include "model/experts.h"
#include "model/grouped.h"
#include "model/library.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A matrix has more rows, and the favourite expert more tokens, than one piece of a product takes. */
enum { E = 288, WIDTH = 96, SHARED = 32, EXPERTS = 7, USED = 3, TOKENS = 200, MEMORY_BYTES = 64 << 20 };

typedef struct world {
    struct ggml_context *context;
    model_shape shape;
    model_weights weights;
    layer_weights layer;
    lone_products *products;
    float *x; /* [TOKENS][E] */
} world;

static struct ggml_tensor *matrix(world *w, enum ggml_type type, uint64_t stream, int64_t n, int64_t m, int64_t experts)
{
    struct ggml_tensor *t = ggml_new_tensor_3d(w->context, type, n, m, experts);
    float *values = test_alloc((size_t)(n * m * experts), sizeof *values);
    test_fill(stream, values, (size_t)(n * m * experts));
    for (int64_t i = 0; i < n * m * experts; i++)
        values[i] *= 0.2f;
    ggml_quantize_chunk(type, values, t->data, 0, m * experts, n, NULL);
    free(values);
    return t;
}

static world new_world(enum ggml_type type, bool is_fused)
{
    world w = {.context = ggml_init((struct ggml_init_params){.mem_size = MEMORY_BYTES})};
    w.shape = (model_shape){.embedding = E, .experts = EXPERTS, .experts_used = USED};
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        w.weights.least_columns[i] = LEAST_COLUMNS;
    expert_weights *e = &w.layer.experts;
    e->router = matrix(&w, GGML_TYPE_F32, 1, E, EXPERTS, 1);
    if (is_fused) {
        e->gate_up = matrix(&w, type, 2, E, 2 * WIDTH, EXPERTS);
    } else {
        e->gate = matrix(&w, type, 2, E, WIDTH, EXPERTS);
        e->up = matrix(&w, type, 3, E, WIDTH, EXPERTS);
    }
    e->down = matrix(&w, type, 4, WIDTH, E, EXPERTS);
    e->shared_router = matrix(&w, GGML_TYPE_F32, 5, E, 1, 1);
    e->shared_gate = matrix(&w, GGML_TYPE_F32, 6, E, SHARED, 1);
    e->shared_up = matrix(&w, GGML_TYPE_F32, 7, E, SHARED, 1);
    e->shared_down = matrix(&w, GGML_TYPE_F32, 8, SHARED, E, 1);
    w.x = test_alloc((size_t)TOKENS * E, sizeof *w.x);
    test_fill(9, w.x, (size_t)TOKENS * E);
    /* Expert 5 is among the chosen of nearly all tokens. */
    float *favourite = (float *)e->router->data + (size_t)5 * E;
    for (size_t i = 0; i < TOKENS * E; i += E)
        for (size_t j = 0; j < E; j++)
            w.x[i + j] += favourite[j];
    assert_int_equal(lone_products_create(3, &w.products), QSA_OK);
    return w;
}

static void free_world(world *w)
{
    lone_products_destroy(w->products);
    ggml_free(w->context);
    free(w->x);
}

/* y of tokens [first, first + n): [n][E], the caller's to free. */
static float *run(world *w, size_t first, size_t n, int threads)
{
    unsigned char params[1024];
    w->weights.layers = &w->layer;
    struct ggml_context *c = ggml_init((struct ggml_init_params){.mem_size = MEMORY_BYTES});
    graph_builder b = {.shape = &w->shape,
                       .weights = &w->weights,
                       .context = c,
                       .tokens = (uint32_t)n,
                       .products = w->products,
                       .params = params,
                       .params_bytes = sizeof params};
    struct ggml_tensor *x = ggml_new_tensor_2d(c, GGML_TYPE_F32, E, (int64_t)n);
    memcpy(x->data, w->x + first * E, n * E * sizeof(float));
    struct ggml_tensor *y = experts_layer(&b, 0, x);
    struct ggml_cgraph *graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, y);
    assert_int_equal(ggml_graph_compute_with_ctx(c, graph, threads), GGML_STATUS_SUCCESS);
    float *found = test_alloc(n * E, sizeof *found);
    memcpy(found, y->data, n * E * sizeof *found);
    ggml_free(c);
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

static void expected_token(const world *w, size_t token, double y[E])
{
    const expert_weights *e = &w->layer.experts;
    double x[E], p[EXPERTS], total = 0;
    float rounded[EXPERTS];
    int32_t chosen[USED];
    for (size_t i = 0; i < E; i++)
        x[i] = w->x[token * E + i];
    memset(y, 0, E * sizeof *y);
    for (size_t i = 0; i < EXPERTS; i++)
        rounded[i] = (float)(p[i] = exp(dot((const float *)e->router->data + i * E, x, E)));
    experts_choose(rounded, EXPERTS, chosen, USED);
    for (size_t r = 0; r < USED; r++)
        total += p[chosen[r]];
    for (size_t r = 0; r < USED; r++) {
        const size_t c = (size_t)chosen[r], size = (size_t)E * WIDTH;
        const float *gate =
            e->gate_up ? (const float *)e->gate_up->data + c * 2 * size : (const float *)e->gate->data + c * size;
        const float *up = e->gate_up ? gate + size : (const float *)e->up->data + c * size;
        add_expert(gate, up, (const float *)e->down->data + c * size, WIDTH, x, p[chosen[r]] / total, y);
    }
    const double gate = 1 / (1 + exp(-dot(e->shared_router->data, x, E)));
    add_expert(e->shared_gate->data, e->shared_up->data, e->shared_down->data, SHARED, x, gate, y);
}

static void check_formula(bool is_fused)
{
    world w = new_world(GGML_TYPE_F32, is_fused);
    for (int threads = 1; threads <= 3; threads++) {
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
            float *found = run(&w, first, sizes[s], 1 + (int)(first % 3));
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
    matrix_library_init();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_batches(types[i]);
}

/* ---- order ---- */

static void pairs_are_grouped_in_order(void **state)
{
    (void)state;
    static int32_t chosen[] = {4, 1, 0, 4, 1, 4};
    static const int32_t first[] = {0, 1, 3, 3, 3, 6}, pair[] = {2, 1, 4, 0, 3, 5}, place[] = {3, 1, 0, 4, 2, 5};
    unsigned char params[64];
    struct ggml_context *c = ggml_init((struct ggml_init_params){.mem_size = 1 << 20});
    graph_builder b = {.context = c, .params = params, .params_bytes = sizeof params};
    struct ggml_tensor *ids = ggml_new_tensor_2d(c, GGML_TYPE_I32, 2, 3);
    memcpy(ids->data, chosen, sizeof chosen);
    struct ggml_tensor *groups = group_pairs(&b, ids, 5);
    struct ggml_cgraph *graph = ggml_new_graph(c);
    ggml_build_forward_expand(graph, groups);
    assert_int_equal(ggml_graph_compute_with_ctx(c, graph, 2), GGML_STATUS_SUCCESS);
    const grouping g = grouping_of(groups);
    test_same_integers("first", first, g.first, 6);
    test_same_integers("pair", pair, g.pair, 6);
    test_same_integers("place", place, g.place, 6);
    ggml_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_say_what_the_formula_says),
        cmocka_unit_test(fused_experts_say_it_too),
        cmocka_unit_test(batches_do_not_matter),
        cmocka_unit_test(pairs_are_grouped_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
