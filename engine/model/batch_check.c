/* SPDX-License-Identifier: Apache-2.0 */
#include "model/batch_check.h"

#include "base/error.h"
#include "model/library.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Token t goes to expert t mod EXPERTS; an expert is half of the rows. */
enum { ROWS = 48, EXPERTS = 2, COLUMNS = 37, SIZES = 8 };

static const int sizes[SIZES] = {1, 2, 3, 4, 5, 8, 16, 31};

/* What the columns of all batches, their paddings and ggml's scratch take, and some for the names. */
static size_t context_bytes(const struct ggml_tensor *weights)
{
    return (size_t)weights->ne[0] * sizeof(float) * COLUMNS * 10 + ((size_t)2 << 20);
}

static void fill(float *out, int64_t n)
{
    uint32_t x = 12345;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        out[i] = (float)(int32_t)x / 2147483648.0f;
    }
}

/* Columns [first, first + n) times the weights, whose bits are compared with the same columns of the whole. */
static struct ggml_tensor *product(struct ggml_context *c, struct ggml_tensor *weights, const float *x, int first,
                                   int n)
{
    const int64_t inner = weights->ne[0];
    struct ggml_tensor *columns = ggml_new_tensor_2d(c, GGML_TYPE_F32, inner, n);
    memcpy(columns->data, x + first * inner, ggml_nbytes(columns));
    if (weights->ne[2] == 1) {
        return matrix_product(c, weights, columns);
    }
    struct ggml_tensor *chosen = ggml_new_tensor_2d(c, GGML_TYPE_I32, 1, n);
    for (int i = 0; i < n; i++) {
        ((int32_t *)chosen->data)[i] = (first + i) % EXPERTS;
    }
    return ggml_mul_mat_id(c, weights, ggml_reshape_3d(c, columns, inner, 1, n), chosen);
}

static bool all_finite(const struct ggml_tensor *products)
{
    const float *y = products->data;
    for (int64_t i = 0; i < ggml_nelements(products); i++) {
        if (!isfinite(y[i])) {
            return false;
        }
    }
    return true;
}

/* What came of a comparison. The bits of a NaN say nothing about batches. */
typedef enum verdict { EQUAL, DIFFERENT, NOT_FINITE } verdict;

static verdict compare_batches(struct ggml_context *c, struct ggml_tensor *weights, const float *x)
{
    struct ggml_cgraph *graph = ggml_new_graph(c);
    struct ggml_tensor *whole = product(c, weights, x, 0, COLUMNS), *parts[SIZES];
    ggml_build_forward_expand(graph, whole);
    for (int i = 0; i < SIZES; i++) {
        parts[i] = product(c, weights, x, COLUMNS - sizes[i], sizes[i]);
        ggml_build_forward_expand(graph, parts[i]);
    }
    if (ggml_graph_compute_with_ctx(c, graph, 1) != GGML_STATUS_SUCCESS) {
        return DIFFERENT;
    }
    if (!all_finite(whole)) {
        return NOT_FINITE;
    }
    for (int i = 0; i < SIZES; i++) {
        const size_t rows = (size_t)weights->ne[1];
        const float *expected = (const float *)whole->data + (size_t)(COLUMNS - sizes[i]) * rows;
        if (memcmp(expected, parts[i]->data, (size_t)sizes[i] * rows * sizeof *expected) != 0) {
            return DIFFERENT;
        }
    }
    return EQUAL;
}

/* The first rows of a matrix, in one piece or as experts. */
static struct ggml_tensor *first_rows(struct ggml_context *c, const struct ggml_tensor *matrix, int experts)
{
    const int64_t all = matrix->ne[1] * matrix->ne[2], rows = all < ROWS ? all : ROWS;
    ggml_set_no_alloc(c, true);
    struct ggml_tensor *first = ggml_new_tensor_3d(c, matrix->type, matrix->ne[0], rows / experts, experts);
    ggml_set_no_alloc(c, false);
    first->data = matrix->data;
    return first;
}

static qsa_status check_in(void *memory, size_t bytes, const struct ggml_tensor *matrix, const float *x)
{
    for (int experts = 1; experts <= EXPERTS; experts++) {
        struct ggml_context *c = ggml_init((struct ggml_init_params){bytes, memory, false});
        const verdict found = c == NULL ? DIFFERENT : compare_batches(c, first_rows(c, matrix, experts), x);
        ggml_free(c);
        if (found == NOT_FINITE) {
            return engine_fail(QSA_E_NONFINITE, "tensor %s: its products with numbers up to 1 are not finite",
                               ggml_get_name(matrix));
        }
        if (found != EQUAL) {
            return engine_fail(QSA_E_UNSUPPORTED,
                               "here ggml's products of %s weights depend on the size of the batch, and so would the "
                               "text; weights as f32 may do",
                               ggml_type_name(matrix->type));
        }
    }
    return QSA_OK;
}

static qsa_status check_matrix(const struct ggml_tensor *matrix)
{
    const size_t bytes = context_bytes(matrix);
    void *memory = malloc(bytes);
    float *x = malloc((size_t)(matrix->ne[0] * COLUMNS) * sizeof *x);
    if (memory == NULL || x == NULL) {
        free(memory);
        free(x);
        return engine_fail(QSA_E_MEMORY, "no memory to check the products of %s", ggml_type_name(matrix->type));
    }
    fill(x, matrix->ne[0] * COLUMNS);
    const qsa_status status = check_in(memory, bytes, matrix, x);
    free(memory);
    free(x);
    return status;
}

qsa_status batch_check(struct ggml_context *weights)
{
    bool checked[GGML_TYPE_COUNT] = {false};
    for (struct ggml_tensor *t = ggml_get_first_tensor(weights); t != NULL; t = ggml_get_next_tensor(weights, t)) {
        if (checked[t->type] || t->ne[1] * t->ne[2] < EXPERTS) {
            continue;
        }
        checked[t->type] = true;
        const qsa_status status = check_matrix(t);
        if (status != QSA_OK) {
            return status;
        }
    }
    return QSA_OK;
}
