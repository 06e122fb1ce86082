/* SPDX-License-Identifier: Apache-2.0 */
/* A product that one thread computes for itself, in the middle of a graph: ggml's own kernels, for work whose sizes are
 * known only when the graph runs. */
#ifndef QSA_ENGINE_MODEL_LONE_PRODUCT_H
#define QSA_ENGINE_MODEL_LONE_PRODUCT_H

#include <ggml.h>
#include <qsa/status.h>
#include <stdbool.h>

typedef struct lone_products lone_products;

/* For parts 0 .. threads - 1, each of which has one product at a time. Errors: QSA_E_MEMORY. */
qsa_status lone_products_create(int threads, lone_products **out_products);
void lone_products_destroy(lone_products *products);
size_t lone_products_bytes(const lone_products *products);

/* Rows of a matrix and columns, by address. */
typedef struct lone_product {
    enum ggml_type type; /* of the matrix */
    int64_t inner;
    const void *rows;    /* [row_count] of ggml_row_size(type, inner) */
    const void *columns; /* [column_count] of ggml_row_size(column_type(type), inner) */
    int64_t row_count;
    int64_t column_count;
    float *out; /* element (column, row) is out[column * out_stride + row] */
    size_t out_stride;
} lone_product;

/* What columns that meet a matrix of that type are converted to. */
enum ggml_type column_type(enum ggml_type matrix);
void convert_column(enum ggml_type matrix, const float *x, void *out, int64_t n);

/* False if this ggml needs memory for such a product that we do not have; then nothing was computed. A column's result
 * is the same bits in any number of columns that batch_check found equal. */
bool lone_product_run(lone_products *products, int part, const lone_product *product);

#endif
