/* SPDX-License-Identifier: Apache-2.0 */
/* The table of formats, and how the weights of each are read. */
#ifndef QSA_PRODUCTS_FORMATS_H
#define QSA_PRODUCTS_FORMATS_H

#include "products/products.h"

enum { QSA_RUN = 32, QSA_HALF_RUN = 16 };

/* 32 weights of a row: weight i is scale[i / 16] * w[i] + minimum[i / 16]. Scales and minimums are exact. */
typedef struct qsa_run {
    int8_t w[QSA_RUN];
    float scale[2];
    float minimum[2];
} qsa_run;

/* Reads run j of a block. */
typedef void qsa_unpack_fn(const uint8_t *block, size_t j, qsa_run *out);

/* A row of the table. */
typedef struct qsa_format_row {
    qsa_format_facts facts;
    uint32_t sum_weights;  /* 32 or 16: how many products are summed as integers; 0: floats, nothing is */
    bool has_minimum;      /* otherwise minimum is 0 and not added */
    bool crosses;          /* of each four runs the third is added before the second */
    qsa_unpack_fn *unpack; /* NULL: floats */
} qsa_format_row;

/* What codes stand for: of iq4_nl and iq4_xs; of mxfp4 and nvfp4, doubled; of the code books, those of iq1 times eight.
 */
extern const int8_t qsa_levels_iq4[16], qsa_levels_fp4[16];
extern const int8_t qsa_levels_iq2[16], qsa_levels_iq3_xxs[16], qsa_levels_iq3_s[16], qsa_levels_iq1[16];

/* NULL: no such format. */
const qsa_format_row *qsa_format_row_of(uint32_t gguf_type);

/* The i-th run of a row to be added. */
static inline size_t qsa_run_in_order(const qsa_format_row *format, size_t i)
{
    return format->crosses && (i % 4 == 1 || i % 4 == 2) ? i ^ 3 : i;
}

/* Reads run j of a row. */
static inline void qsa_unpack(const qsa_format_row *format, const uint8_t *row, size_t j, qsa_run *out)
{
    size_t runs = format->facts.block_weights / QSA_RUN;
    format->unpack(row + j / runs * format->facts.block_bytes, j % runs, out);
}

/* Weight i of a row of f32, f16 or bf16. */
float qsa_float_weight(qsa_format format, const uint8_t *row, size_t i);

#endif
