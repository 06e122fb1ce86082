/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of large tables: the token embedding and the n-gram table. A token reads a few rows of tables that may be larger
 * than the memory. */
#ifndef QSA_ENGINE_MODEL_ROWS_H
#define QSA_ENGINE_MODEL_ROWS_H

#include "model/pass.h"

typedef struct row_lookup {
    const qsa_weights *table;
    const int32_t *rows; /* [n] */
    size_t n;
    size_t copies; /* of each row, one after the other */
    float *out;    /* [n][copies][inner] */
} row_lookup;

/* Starts reading the rows of a mapped table from the file, side by side, and returns at once. */
void rows_fetch(pass *p, const row_lookup *lookup);

void rows_look_up(pass *p, const row_lookup *lookup);

#endif
