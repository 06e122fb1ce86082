/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products as operations of a pass. */
#ifndef QSA_ENGINE_MODEL_PRODUCT_H
#define QSA_ENGINE_MODEL_PRODUCT_H

#include "model/pass.h"

#include <stdbool.h>

typedef struct product {
    const qsa_weights *weights;
    float *y;        /* [count][y_stride]; writes the first weights->rows of each */
    size_t y_stride; /* 0: weights->rows */
} product;

enum { PRODUCTS_AT_ONCE = 8 };

/* Multiplies matrices by the same columns x [count][inner], all in one run: at most PRODUCTS_AT_ONCE. */
void multiply(pass *p, const float *x, size_t count, const product *list, size_t n);

/* Multiplies y [count][stride], of which `rows` are used, by the scale that the matrix at data has, if it has one;
 * expert: of which. */
void apply_scale(const pass *p, const void *data, size_t expert, float *y, size_t count, size_t rows, size_t stride);

/* x [count][inner] as columns of products, of which some need them quantised. x and the columns must outlive the
 * products. The quantised columns are in p->blocks until the next ones are. */
qsa_columns columns_of(pass *p, const float *x, size_t inner, size_t count, bool is_quantised);
bool quantises(const qsa_weights *weights);

/* operation: a qsa_product; units: qsa_product_tiles. */
void task_multiply(const void *context, const void *operation, size_t begin, size_t end);

/* Bytes of p->blocks for count columns. */
size_t product_blocks_bytes(const qsa_weights *weights, size_t count);

#endif
