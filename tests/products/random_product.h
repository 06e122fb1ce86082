/* SPDX-License-Identifier: Apache-2.0 */
/* Products of any format and shape with random weights and columns. */
#ifndef RANDOM_PRODUCT_H
#define RANDOM_PRODUCT_H

#include "products/products.h"

#include "random_values.h"

typedef struct product_shape {
    size_t rows, inner, columns, experts; /* experts 0: one matrix */
} product_shape;

/* A product and all it points to. blocks and y are not written yet. */
typedef struct random_product {
    qsa_product product;
    qsa_columns columns;
    size_t pairs; /* rows of y */
    uint8_t *weights;
    float *values;
    uint32_t *first, *column;
} random_product;

/* wild: scales of any size, NaN and infinite ones too, and columns with such numbers; otherwise every weight is below
 * 64 and every number of a column below 2^8. The weights begin at an odd address and end where their memory ends. */
void random_product_make(random_source *random, qsa_format format, product_shape shape, bool wild, random_product *out);
void random_product_free(random_product *p);

/* n blocks of a format whose weights are below 64 in magnitude. */
void random_blocks(random_source *random, qsa_format format, uint8_t *out, size_t n);

/* Fails, with the format's and `what`'s name, at the first number that differs in a bit; a NaN is like another. */
void same_products(const char *format, const char *what, const float *expected, const float *actual, size_t n);

#endif
