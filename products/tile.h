/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a product: what an instruction set's functions are given. */
#ifndef QSA_PRODUCTS_TILE_H
#define QSA_PRODUCTS_TILE_H

#include "products/formats.h"

#include <math.h>

/* The columns of a tile at most. Their sums with 32 rows fill a level 1 cache, and their blocks at the usual widths
 * stay in level 2 from tile to tile. */
enum { QSA_TILE_COLUMNS = 128 };

/* Rows of one matrix times some columns. */
typedef struct qsa_tile {
    const qsa_format_row *row_format;
    qsa_format format;
    const uint8_t *weights; /* [rows][row_bytes] */
    size_t row_bytes, rows, inner;
    const uint8_t *end;            /* of the weights that this tile and the next need: what may be prefetched */
    const qsa_column_block *block; /* [inner / 32][block_count] */
    size_t block_count;
    const float *values; /* [block_count][stride] */
    size_t stride;
    const uint32_t *column; /* [columns]: which of them */
    size_t columns;         /* 1 .. QSA_TILE_COLUMNS */
    float *y;               /* [columns][y_stride], the first `rows` of each */
    size_t y_stride;
} qsa_tile;

typedef void qsa_tile_fn(const qsa_tile *tile);

/* qsa_products.multiply, for a function that does one tile. */
void qsa_for_tiles(const qsa_product *product, size_t begin, size_t end, qsa_tile_fn *multiply);

/* Writes column c of columns->blocks. */
typedef void qsa_quantise_fn(const qsa_columns *columns, size_t c);

/* qsa_products.quantise, likewise. */
void qsa_for_columns(const qsa_columns *columns, size_t begin, size_t end, qsa_quantise_fn *quantise);

/* ---- What every instruction set does alike of a column's block ---- */

/* A block whose largest magnitude, a, is too small, infinite or NaN. */
static inline void qsa_quantise_unusual(float a, qsa_column_block *out)
{
    *out = (qsa_column_block){.scale = 0.0f};
    if (!(a < INFINITY))
        out->scale = out->scaled_sum = out->scaled_half_sum[0] = out->scaled_half_sum[1] = NAN;
}

/* All but q, from the largest magnitude and the sums of both halves of q. */
static inline void qsa_finish_block(float a, int32_t half0, int32_t half1, qsa_column_block *out)
{
    out->scale = a / 127.0f;
    out->scaled_sum = out->scale * (float)(half0 + half1);
    out->scaled_half_sum[0] = out->scale * (float)half0;
    out->scaled_half_sum[1] = out->scale * (float)half1;
    out->bias = -128 * (half0 + half1);
    out->half_bias[0] = -128 * half0;
    out->half_bias[1] = -128 * half1;
    out->zero = 0;
}

/* The definition. */
void qsa_tile_scalar(const qsa_tile *tile);
void qsa_quantise_scalar(const qsa_columns *columns, size_t c);

/* qsa_tile_NAME and qsa_quantise_NAME from what integers.inc, floats.inc and a vector_*.h define. */
#define QSA_PRODUCTS_FUNCTIONS(NAME)                                                                                   \
    static void qsa_tile_##NAME(const qsa_tile *tile)                                                                  \
    {                                                                                                                  \
        if (tile->row_format->unpack)                                                                                  \
            integer_tile(tile);                                                                                        \
        else                                                                                                           \
            float_tile(tile);                                                                                          \
    }                                                                                                                  \
    static void qsa_quantise_##NAME(const qsa_columns *columns, size_t c)                                              \
    {                                                                                                                  \
        const float *x = columns->values + c * columns->stride;                                                        \
        for (size_t b = 0; b < columns->inner / QSA_RUN; b++)                                                          \
            quantise_block(x + b * QSA_RUN, &columns->blocks[b * columns->count + c]);                                 \
    }

/* Declares the table of an instruction set, which has qsa_tile_NAME and qsa_quantise_NAME. */
#define QSA_PRODUCTS_TABLE(NAME, ISA, VARIANT)                                                                         \
    static void multiply_tiles(const qsa_product *product, size_t begin, size_t end)                                   \
    {                                                                                                                  \
        qsa_for_tiles(product, begin, end, qsa_tile_##NAME);                                                           \
    }                                                                                                                  \
    static void quantise_columns(const qsa_columns *columns, size_t begin, size_t end)                                 \
    {                                                                                                                  \
        qsa_for_columns(columns, begin, end, qsa_quantise_##NAME);                                                     \
    }                                                                                                                  \
    const qsa_products qsa_products_##NAME = {ISA, VARIANT, quantise_columns, multiply_tiles}

#endif
