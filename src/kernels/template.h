/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels are written once and compiled for several counts and types: what every instruction set's files share. */
#ifndef QSA_KERNELS_TEMPLATE_H
#define QSA_KERNELS_TEMPLATE_H

#include <stddef.h>

/* A function that is a template: its constant arguments are known wherever it is called. */
#define QSA_INLINE static inline __attribute__((always_inline))

/* Unrolls the loop that follows completely, so that arrays of vectors live in registers. */
#if defined(__clang__)
#define QSA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QSA_UNROLL _Pragma("GCC unroll 16")
#endif

/* Runs `call`, in which ROWS_CONSTANT is the constant 1 .. 6 that `rows` equals: the rows of q, or of p, that share
 * what is loaded. Six rows of two vectors are twelve accumulators, which with keys, q and zeros fill 16 registers; six
 * rows of four are 24 of 32. */
#define QSA_ROWS_CASE(n, call)                                                                                         \
    case n: {                                                                                                          \
        enum { ROWS_CONSTANT = n };                                                                                    \
        call;                                                                                                          \
        break;                                                                                                         \
    }
#define QSA_WITH_CONSTANT_ROWS(rows, call)                                                                             \
    switch (rows) {                                                                                                    \
        QSA_ROWS_CASE(1, call)                                                                                         \
        QSA_ROWS_CASE(2, call)                                                                                         \
        QSA_ROWS_CASE(3, call)                                                                                         \
        QSA_ROWS_CASE(4, call)                                                                                         \
        QSA_ROWS_CASE(5, call)                                                                                         \
        QSA_ROWS_CASE(6, call)                                                                                         \
    }

/* In how many passes of at most `most` rows of q each all rows are done. Pass i of n takes rows * i / n to
 * rows * (i + 1) / n: dealt out evenly, so that 8 are 4 and 4, not 6 and 2, of which the 2 would wait for their chains.
 */
static inline size_t qsa_passes(size_t rows, size_t most)
{
    return (rows + most - 1) / most;
}

#endif
