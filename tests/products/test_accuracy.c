/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of our products against f64, beside ggml's for the same weights and activations: never above. */
#include "support.h"

#include "random_product.h"

#include <ggml-cpu.h>
#include <ggml.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 32, INNER = 1280, COLUMNS = 16 };

static float normal(random_source *random)
{
    double u = ((double)(random_next(random) >> 40) + 1.0) * 0x1p-24, v = (double)(random_next(random) >> 40) * 0x1p-24;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

/* How activations are distributed. */
enum kind { NORMAL, OUTLIER_CHANNELS, HEAVY_TAILED, LOG_NORMAL, KIND_COUNT };
static const char *const kinds[] = {"normal", "one channel in 100 thirty times larger",
                                    "Student t, 2 degrees of freedom", "log-normal"};

static float activation(random_source *random, enum kind kind, size_t channel)
{
    float x = normal(random), a = normal(random), b = normal(random);
    switch (kind) {
    case OUTLIER_CHANNELS:
        return channel % 100 == 7 ? 30.0f * x : x;
    case HEAVY_TAILED:
        return x / sqrtf((a * a + b * b) / 2.0f + 1e-6f);
    case LOG_NORMAL:
        return x * expf(2.0f * a);
    default:
        return x;
    }
}

/* Weights as ggml quantises normal ones. */
static void make_weights(random_source *random, qsa_format format, uint8_t *out)
{
    static float values[ROWS * INNER], importance[INNER];
    for (size_t i = 0; i < ROWS * INNER; i++)
        values[i] = 0.02f * normal(random);
    for (size_t i = 0; i < INNER; i++)
        importance[i] = 1.0f;
    if (format == QSA_FORMAT_F32)
        memcpy(out, values, sizeof values);
    else
        ggml_quantize_chunk((enum ggml_type)format, values, out, 0, ROWS, INNER, importance);
}

static void multiply_by_ggml(qsa_format format, void *weights, float *x, float *y)
{
    struct ggml_context *context = ggml_init((struct ggml_init_params){1 << 20, NULL, true});
    struct ggml_tensor *w = ggml_new_tensor_2d(context, (enum ggml_type)format, INNER, ROWS);
    struct ggml_tensor *columns = ggml_new_tensor_2d(context, GGML_TYPE_F32, INNER, COLUMNS);
    struct ggml_tensor *product = ggml_mul_mat(context, w, columns);
    w->data = weights;
    columns->data = x;
    product->data = y;
    struct ggml_cgraph *graph = ggml_new_graph_custom(context, 8, false);
    ggml_build_forward_expand(graph, product);
    struct ggml_cplan plan = ggml_graph_plan(graph, 1, NULL);
    plan.work_data = test_alloc(plan.work_size + 64, 1);
    assert_int_equal(ggml_graph_compute(graph, &plan), GGML_STATUS_SUCCESS);
    free(plan.work_data);
    ggml_free(context);
}

static void multiply_by_us(qsa_format format, void *weights, float *x, float *y)
{
    const char *wanted;
    const qsa_products *products = qsa_products_choose(&wanted);
    qsa_columns columns = {INNER, COLUMNS, x, INNER, aligned_alloc(64, qsa_columns_bytes(INNER, COLUMNS))};
    qsa_product product = {.weights = {format, ROWS, INNER, weights, qsa_format_row_bytes(format, INNER)},
                           .columns = &columns,
                           .y = y,
                           .y_stride = ROWS};
    if (qsa_format_find(format)->quantises_columns)
        products->quantise(&columns, 0, COLUMNS);
    products->multiply(&product, 0, qsa_product_tiles(&product));
    free(columns.blocks);
}

/* Root of the mean square of y's errors, relative to the exact results. */
static double relative_error(const qsa_weights *weights, const float *x, const float *y)
{
    static float row[INNER];
    double error = 0.0, size = 0.0;
    for (size_t r = 0; r < ROWS; r++) {
        qsa_weights_row(weights, r, row);
        for (size_t c = 0; c < COLUMNS; c++) {
            double exact = 0.0;
            for (size_t k = 0; k < INNER; k++)
                exact += (double)row[k] * (double)x[c * INNER + k];
            error += pow((double)y[c * ROWS + r] - exact, 2.0);
            size += exact * exact;
        }
    }
    return sqrt(error / size);
}

/* Errors come from the rounding of activations, which both do alike but for the scales: they differ a little by chance.
 */
static const double CHANCE = 1.01;

/* Of f32 sums in any order: ggml's order, and with it its error, is another one on every instruction set it is built
 * for. */
static const double ROUNDING = 4e-7;

static void not_above_ggml(const qsa_weights *weights, void *bytes, enum kind kind)
{
    static float x[COLUMNS * INNER], y[COLUMNS * ROWS], by_ggml[COLUMNS * ROWS];
    random_source random = {.state = 7 + (uint64_t)kind};
    for (size_t i = 0; i < COLUMNS * INNER; i++)
        x[i] = activation(&random, kind, i % INNER);
    multiply_by_us(weights->format, bytes, x, y);
    multiply_by_ggml(weights->format, bytes, x, by_ggml);
    double ours = relative_error(weights, x, y), theirs = relative_error(weights, x, by_ggml);
    if (!(ours <= CHANCE * theirs || ours <= ROUNDING))
        fail_msg("%s, %s activations: error %.3e, ggml's %.3e", qsa_format_find(weights->format)->name, kinds[kind],
                 ours, theirs);
}

static void errors_are_not_above_those_of_ggml(void **state)
{
    (void)state;
    ggml_cpu_init();
    for (uint32_t type = 0; type < QSA_FORMAT_END; type++) {
        if (!qsa_format_find(type))
            continue;
        random_source random = {.state = 99};
        size_t row_bytes = qsa_format_row_bytes((qsa_format)type, INNER);
        uint8_t *bytes = test_alloc(ROWS * row_bytes, 1);
        make_weights(&random, (qsa_format)type, bytes);
        qsa_weights weights = {(qsa_format)type, ROWS, INNER, bytes, row_bytes};
        for (enum kind kind = 0; kind < KIND_COUNT; kind++)
            not_above_ggml(&weights, bytes, kind);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_are_not_above_those_of_ggml)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
