/* SPDX-License-Identifier: Apache-2.0 */
#include "model/batch_check.h"

#include "base/error.h"
#include "model/library.h"
#include "model/lone_product.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, COLUMNS = 37, RANGES = 14, MAX_KINDS = 256 };

/* Columns [first, first + n) as one batch; the first range is all of them. */
typedef struct range {
    int first, n;
} range;

static const range ranges[RANGES] = {{0, COLUMNS}, {0, 1},  {9, 1},  {20, 1}, {36, 1}, {0, 2},   {11, 2},
                                     {35, 2},      {33, 3}, {32, 4}, {30, 5}, {29, 8}, {21, 16}, {6, 31}};

typedef struct trial {
    struct ggml_context *context;
    struct ggml_tensor *rows; /* of a matrix */
    const float *x;           /* [COLUMNS][inner] */
    float *found[RANGES];     /* [n][ROWS] */
} trial;

/* What two trials take: the columns of all ranges, ggml's scratch, rows and results; and some for the names. */
static size_t trial_bytes(const struct ggml_tensor *matrix)
{
    return 2 * (size_t)matrix->ne[0] * sizeof(float) * COLUMNS * 12 + ((size_t)4 << 20);
}

static void fill(float *out, int64_t n)
{
    uint32_t x = 12345;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = (float)(int32_t)x / 2147483648.0f;
    }
}

/* ---- the products ---- */

static bool run_in_a_graph(trial *t)
{
    struct ggml_cgraph *graph = ggml_new_graph(t->context);
    const int64_t inner = t->rows->ne[0];
    for (int i = 0; i < RANGES; i++) {
        struct ggml_tensor *columns = ggml_new_tensor_2d(t->context, GGML_TYPE_F32, inner, ranges[i].n);
        memcpy(columns->data, t->x + ranges[i].first * inner, ggml_nbytes(columns));
        struct ggml_tensor *product = ggml_mul_mat(t->context, t->rows, columns);
        ggml_build_forward_expand(graph, product);
        t->found[i] = product->data;
    }
    return ggml_graph_compute_with_ctx(t->context, graph, 1) == GGML_STATUS_SUCCESS;
}

static bool run_alone(trial *t, lone_products *products)
{
    const enum ggml_type type = column_type(t->rows->type);
    const int64_t inner = t->rows->ne[0], rows = t->rows->ne[1];
    struct ggml_tensor *columns = ggml_new_tensor_2d(t->context, type, inner, COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        convert_column(t->rows->type, t->x + i * inner, (char *)columns->data + (size_t)i * columns->nb[1], inner);
    for (int i = 0; i < RANGES; i++) {
        t->found[i] = ggml_new_tensor_2d(t->context, GGML_TYPE_F32, rows, ranges[i].n)->data;
        const lone_product product = {
            t->rows->type, inner,
            t->rows->data, (const char *)columns->data + (size_t)ranges[i].first * columns->nb[1],
            rows,          ranges[i].n,
            t->found[i],   (size_t)rows};
        if (!lone_product_run(products, 0, &product))
            return false;
    }
    return true;
}

/* ---- comparing ---- */

/* What came of a trial. The bits of a NaN say nothing about batches. */
typedef enum verdict { EQUAL, EQUAL_FROM_LEAST, DIFFERENT, NOT_FINITE } verdict;

static verdict compare(const trial *t)
{
    const size_t rows = (size_t)t->rows->ne[1];
    verdict found = EQUAL;
    for (size_t i = 0; i < COLUMNS * rows; i++)
        if (!isfinite(t->found[0][i]))
            return NOT_FINITE;
    for (int i = 1; i < RANGES; i++) {
        const float *expected = t->found[0] + (size_t)ranges[i].first * rows;
        if (memcmp(expected, t->found[i], (size_t)ranges[i].n * rows * sizeof *expected) != 0) {
            if (ranges[i].n >= LEAST_COLUMNS)
                return DIFFERENT;
            found = EQUAL_FROM_LEAST;
        }
    }
    return found;
}

static verdict run_trial(trial *t, lone_products *products)
{
    const verdict in_a_graph = run_in_a_graph(t) ? compare(t) : DIFFERENT;
    if (in_a_graph == DIFFERENT || in_a_graph == NOT_FINITE)
        return in_a_graph;
    const verdict alone = run_alone(t, products) ? compare(t) : DIFFERENT;
    return alone > in_a_graph ? alone : in_a_graph;
}

/* ---- one matrix ---- */

/* Its first rows. What they hold may be special, such as zeros, for which every order of a sum gives the same. */
static struct ggml_tensor *rows_of(struct ggml_context *c, const struct ggml_tensor *matrix)
{
    const int64_t all = matrix->ne[1] * matrix->ne[2];
    ggml_set_no_alloc(c, true);
    struct ggml_tensor *rows = ggml_new_tensor_2d(c, matrix->type, matrix->ne[0], all < ROWS ? all : ROWS);
    ggml_set_no_alloc(c, false);
    rows->data = matrix->data;
    return rows;
}

/* Types that take no time to quantise. */
static bool is_quick(enum ggml_type type)
{
    static const enum ggml_type quick[] = {
        GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
        GGML_TYPE_Q8_0, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++)
        if (quick[i] == type)
            return true;
    return false;
}

/* Random rows of the same type and length; x [ROWS * inner] is where they come from. */
static struct ggml_tensor *random_rows(struct ggml_context *c, const struct ggml_tensor *matrix, const float *x)
{
    struct ggml_tensor *rows = ggml_new_tensor_2d(c, matrix->type, matrix->ne[0], ROWS);
    ggml_quantize_chunk(matrix->type, x, rows->data, 0, ROWS, matrix->ne[0], NULL);
    return rows;
}

/* x [COLUMNS][inner], of random numbers. */
static verdict try_in(struct ggml_context *c, const struct ggml_tensor *matrix, const float *x, lone_products *products)
{
    trial t = {.context = c, .rows = rows_of(c, matrix), .x = x};
    const verdict found = run_trial(&t, products);
    if (found == DIFFERENT || found == NOT_FINITE)
        return found;
    if (!is_quick(matrix->type))
        return EQUAL_FROM_LEAST; /* for all that is known */
    t.rows = random_rows(c, matrix, x);
    return run_trial(&t, products);
}

static qsa_status check_matrix(const struct ggml_tensor *matrix, lone_products *products, int64_t *out_least_columns)
{
    const size_t bytes = trial_bytes(matrix);
    float *x = malloc((size_t)(matrix->ne[0] * COLUMNS) * sizeof *x);
    struct ggml_context *c = ggml_init((struct ggml_init_params){bytes, NULL, false});
    if (x == NULL || c == NULL) {
        free(x);
        ggml_free(c);
        return engine_fail(QSA_E_MEMORY, "no memory to check the products of %s", ggml_type_name(matrix->type));
    }
    fill(x, matrix->ne[0] * COLUMNS);
    const verdict found = try_in(c, matrix, x, products);
    free(x);
    ggml_free(c);
    if (found == NOT_FINITE) {
        return engine_fail(QSA_E_NONFINITE, "tensor %s: its products with numbers up to 1 are not finite",
                           ggml_get_name(matrix));
    }
    if (found == DIFFERENT) {
        return engine_fail(QSA_E_UNSUPPORTED,
                           "here ggml's products of %s weights depend on the size of the batch, and so would the text; "
                           "weights as f32 may do",
                           ggml_type_name(matrix->type));
    }
    if (found == EQUAL_FROM_LEAST)
        out_least_columns[matrix->type] = LEAST_COLUMNS;
    return QSA_OK;
}

/* ---- all matrices ---- */

typedef struct kinds {
    struct {
        enum ggml_type type;
        int64_t inner;
    } at[MAX_KINDS];
    int n;
} kinds;

/* Kernels are chosen by type and inner length. A model with more kinds than fit has some checked twice. */
static bool is_new(kinds *seen, const struct ggml_tensor *t)
{
    for (int i = 0; i < seen->n; i++)
        if (seen->at[i].type == t->type && seen->at[i].inner == t->ne[0])
            return false;
    if (seen->n < MAX_KINDS) {
        seen->at[seen->n].type = t->type;
        seen->at[seen->n++].inner = t->ne[0];
    }
    return true;
}

qsa_status batch_check(struct ggml_context *weights, int64_t *out_least_columns)
{
    lone_products *products = NULL;
    qsa_status status = lone_products_create(1, &products);
    kinds seen = {.n = 0};
    for (int i = 0; i < GGML_TYPE_COUNT; i++)
        out_least_columns[i] = 1;
    for (struct ggml_tensor *t = ggml_get_first_tensor(weights); t != NULL && status == QSA_OK;
         t = ggml_get_next_tensor(weights, t))
        if (is_new(&seen, t))
            status = check_matrix(t, products, out_least_columns);
    lone_products_destroy(products);
    return status;
}
