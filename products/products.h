/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical products: y[column][row] = sum over k of w[row][k] * x[column][k].
 *
 * docs/PRODUCTS.md defines every result to the last bit. It does not depend on the instruction set, on how many columns
 * there are, on how the work is cut, or on which thread does a part. Only what is not a number is free: a NaN is a NaN,
 * its sign and payload are unspecified.
 *
 * The weights stay as a GGUF file has them: mapped, never copied, at any alignment. Of a matrix of integers the columns
 * are quantised once (qsa_columns_quantise) and then serve every product with them; a matrix of f32, f16 or bf16 reads
 * the columns as they are.
 *
 *     const qsa_products *products = qsa_products_choose(&wanted);
 *     qsa_columns x = {.inner = k, .count = n, .values = activations, .stride = k, .blocks = memory};
 *     products->quantise(&x, 0, n);
 *     qsa_product p = {.weights = w, .columns = &x, .y = out, .y_stride = w.rows};
 *     products->multiply(&p, 0, qsa_product_tiles(&p));
 *
 * Nothing here allocates, blocks or fails: the caller has checked shapes and formats (qsa_format_find, and inner a
 * multiple of the block's weights). Any thread may call with its own range of columns or tiles, in any order, at the
 * same time as others. Each call sets the float environment it needs and restores the caller's. */
#ifndef QSA_PRODUCTS_H
#define QSA_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Formats of weights ---- */

/* The numbers are those of GGUF's tensor types. */
typedef enum qsa_format {
    QSA_FORMAT_F32 = 0,
    QSA_FORMAT_F16 = 1,
    QSA_FORMAT_Q4_0 = 2,
    QSA_FORMAT_Q4_1 = 3,
    QSA_FORMAT_Q5_0 = 6,
    QSA_FORMAT_Q5_1 = 7,
    QSA_FORMAT_Q8_0 = 8,
    QSA_FORMAT_Q2_K = 10,
    QSA_FORMAT_Q3_K = 11,
    QSA_FORMAT_Q4_K = 12,
    QSA_FORMAT_Q5_K = 13,
    QSA_FORMAT_Q6_K = 14,
    QSA_FORMAT_IQ2_XXS = 16,
    QSA_FORMAT_IQ2_XS = 17,
    QSA_FORMAT_IQ3_XXS = 18,
    QSA_FORMAT_IQ1_S = 19,
    QSA_FORMAT_IQ4_NL = 20,
    QSA_FORMAT_IQ3_S = 21,
    QSA_FORMAT_IQ2_S = 22,
    QSA_FORMAT_IQ4_XS = 23,
    QSA_FORMAT_IQ1_M = 29,
    QSA_FORMAT_BF16 = 30,
    QSA_FORMAT_MXFP4 = 39,
    QSA_FORMAT_NVFP4 = 40,
    QSA_FORMAT_END = 41 /* above every number */
} qsa_format;

typedef struct qsa_format_facts {
    const char *name;       /* "q4_K", as GGUF tools write it */
    uint32_t block_weights; /* a row is a whole number of blocks of so many weights ... */
    uint32_t block_bytes;   /* ... and bytes */
    bool quantises_columns; /* its products read qsa_columns.blocks; otherwise qsa_columns.values */
} qsa_format_facts;

/* NULL: not the number of a format above. Static storage. */
const qsa_format_facts *qsa_format_find(uint32_t gguf_type);

/* Bytes of a row of `inner` weights, a multiple of the format's block. */
size_t qsa_format_row_bytes(qsa_format format, size_t inner);

/* ---- Weights ---- */

/* A matrix [rows][inner] in memory that the caller keeps. */
typedef struct qsa_weights {
    qsa_format format;
    size_t rows, inner;
    const void *data;
    size_t row_bytes; /* from a row to the next */
} qsa_weights;

/* One row as f32, out [inner]: each weight as the format means it, rounded once where it has a minimum and otherwise
 * exact. For rows that are looked up: embeddings, n-gram tables. */
void qsa_weights_row(const qsa_weights *weights, size_t row, float *out);

/* ---- Columns ---- */

/* 32 numbers of a column, quantised, and what the formats need of their sums: one cache line. Half h: numbers 16 h to
 * 16 h + 15. */
typedef struct qsa_column_block {
    int8_t q[32];
    float scale;              /* x is about scale * q; NaN if one of the 32 is not finite */
    float scaled_sum;         /* scale * sum of q, rounded once */
    float scaled_half_sum[2]; /* scale * sum of a half, rounded once */
    int32_t bias;             /* -128 * sum of q */
    int32_t half_bias[2];     /* -128 * sum of a half */
    uint32_t zero;
} qsa_column_block;

/* `count` columns of `inner` numbers: the activations of as many tokens. */
typedef struct qsa_columns {
    size_t inner, count;
    const float *values; /* [count][stride], the first `inner` of each */
    size_t stride;       /* numbers from a column to the next, at least inner */
    qsa_column_block
        *blocks; /* [inner / 32][count], at a multiple of 64 bytes; NULL if nothing quantised is multiplied */
} qsa_columns;

/* Bytes of `blocks`. */
size_t qsa_columns_bytes(size_t inner, size_t count);

/* ---- Products ---- */

/* What is multiplied. With one matrix: every column with it. With experts, each expert's matrix with the columns of the
 * pairs (column, expert) that chose it, in the order that the caller sorted the pairs in. Either way a row of y is a
 * pair. */
typedef struct qsa_product {
    qsa_weights weights; /* the matrix; with experts that of expert 0 */
    const qsa_columns *columns;
    size_t experts;         /* 0: one matrix, all columns in their order */
    size_t expert_bytes;    /* from a matrix to the next */
    const uint32_t *first;  /* [experts + 1]: the pairs of expert e are first[e] <= pair < first[e + 1] */
    const uint32_t *column; /* [pairs]: the column of a pair; NULL: pair i is column i */
    float *y;               /* [pairs or columns][y_stride], the first `rows` of each are written */
    size_t y_stride;
} qsa_product;

/* Into how many tiles the work may be cut: QSA_TILE_ROWS rows of one matrix with some of its columns. Neighbours read
 * neighbouring weights: a thread does best with ranges of several. Tiles of an expert that nobody chose cost nothing.
 */
enum { QSA_TILE_ROWS = 64 };
size_t qsa_product_tiles(const qsa_product *product);

/* The functions, for an instruction set. */
typedef struct qsa_products {
    const char *isa;     /* "scalar", "avx2", "avx512", "neon": what QSA_ISA may ask for */
    const char *variant; /* names it among those of one isa, "avx512 vnni" */
    /* Writes columns->blocks of columns begin .. end from columns->values. inner is a multiple of 32. */
    void (*quantise)(const qsa_columns *columns, size_t begin, size_t end);
    /* Writes the results of tiles begin .. end. */
    void (*multiply)(const qsa_product *product, size_t begin, size_t end);
} qsa_products;

/* The best for this processor; the best of the instruction set that the environment variable QSA_ISA names, if it is
 * set. NULL: that name is unknown, not built, or this processor lacks it. out_wanted: QSA_ISA, NULL if not set. */
const qsa_products *qsa_products_choose(const char **out_wanted);

/* Number i of those that were built and run here, scalar, the definition, first; NULL past the last. For tests and
 * benches. */
const qsa_products *qsa_products_available(size_t i);

#endif
