/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of sums along rows, in SIMD. A chain may not be cut (SPEC section 6), so lanes are rows: a transposed load
 * puts one column of LANES rows into a vector. Included by a file that has included its instruction set's vec. */
#ifndef QSA_KERNELS_SIMD_CHAINS_H
#define QSA_KERNELS_SIMD_CHAINS_H

#include "kernels/functions.h"
#include "kernels/template.h"

enum { CHAIN_ROWS = LANES * CHAIN_VECTORS };

/* At most LANES * vectors rows, out [LANES * vectors]; lanes beyond the last row repeat it, but for what n leaves over.
 * Several vectors run side by side, because one alone waits for the latency of its additions. */
QSA_INLINE void chains_of(const float *x, size_t stride, uint32_t n_rows, uint32_t vectors, size_t n, bool squares,
                          float *out)
{
    const float *rows[CHAIN_ROWS];
    for (uint32_t r = 0; r < LANES * vectors; r++)
        rows[r] = x + (r < n_rows ? r : n_rows - 1) * stride;
    vec total[CHAIN_VECTORS];
    QSA_UNROLL
    for (uint32_t v = 0; v < vectors; v++)
        total[v] = vec_zero();
    size_t j = 0;
    for (; j + 4 <= n; j += 4) {
        vec column[CHAIN_VECTORS][4];
        QSA_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            vec_columns(rows + LANES * v, j, column[v]);
        QSA_UNROLL
        for (int k = 0; k < 4; k++)
            QSA_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            total[v] = squares ? vec_fma(column[v][k], column[v][k], total[v]) : vec_add(total[v], column[v][k]);
    }
    for (uint32_t v = 0; v < vectors; v++)
        vec_store(out + LANES * v, total[v]);
    for (; j < n; j++)
        for (uint32_t r = 0; r < n_rows; r++)
            out[r] = squares ? fmaf(rows[r][j], rows[r][j], out[r]) : out[r] + rows[r][j];
}

/* The sums, or sums of squares, of at most CHAIN_ROWS rows of n, out [CHAIN_ROWS]. Returns how many vectors of it are
 * written; lanes beyond the last row hold some number. */
QSA_INLINE uint32_t chains(const float *x, size_t stride, uint32_t rows, size_t n, bool squares, float *out)
{
    if (CHAIN_VECTORS > 2 && rows > 2 * LANES) {
        chains_of(x, stride, rows, CHAIN_VECTORS, n, squares, out);
        return CHAIN_VECTORS;
    }
    if (CHAIN_VECTORS > 1 && rows > LANES) {
        chains_of(x, stride, rows, 2, n, squares, out);
        return 2;
    }
    chains_of(x, stride, rows, 1, n, squares, out);
    return 1;
}

#endif
