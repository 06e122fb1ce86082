/* SPDX-License-Identifier: Apache-2.0 */
/* How kernels are written once and compiled for several row counts and element types. */
#ifndef QSA_KERNELS_TEMPLATE_H
#define QSA_KERNELS_TEMPLATE_H

#include "kernels/kernels.h"

#include <stddef.h>

/* A function that is a template: its constant arguments are known wherever it is called. */
#define QSA_INLINE static inline __attribute__((always_inline))

/* Unrolls the loop that follows completely, so that arrays of vectors live in registers. */
#if defined(__clang__)
#define QSA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define QSA_UNROLL _Pragma("GCC unroll 16")
#endif

/* A case of a switch that runs `call` with the constant `name`. */
#define QSA_CASE(name, value, call)                                                                                    \
    case value: {                                                                                                      \
        const name = value;                                                                                            \
        call;                                                                                                          \
        break;                                                                                                         \
    }

/* The type switch of a kernel: runs `call` with constant_type: an index key's type, one that is no chunks, any. */
#define QSA_WITH_INDEX_ELEMENT(type, call)                                                                             \
    switch ((int)(type)) {                                                                                             \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_F32, call)                                                \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_BF16, call)                                               \
    }
#define QSA_WITH_PLAIN_ELEMENT(type, call)                                                                             \
    switch ((int)(type)) {                                                                                             \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_F32, call)                                                \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_BF16, call)                                               \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_F16, call)                                                \
    }
#define QSA_WITH_ELEMENT(type, call)                                                                                   \
    switch ((int)(type)) {                                                                                             \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_F32, call)                                                \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_BF16, call)                                               \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_F16, call)                                                \
        QSA_CASE(enum qsa_element constant_type, QSA_ELEMENT_Q8_0, call)                                               \
    }

/* Runs `call` with constant_rows: the rows of q, or of p, that share each load of K or V. 1 .. 6 where there
 * are 16 registers: six rows of two vectors are twelve accumulators. 1 .. 12 in seven steps where there are 32. */
#define QSA_WITH_ROWS_6(rows, call)                                                                                    \
    switch (rows) {                                                                                                    \
        QSA_CASE(uint32_t constant_rows, 1, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 2, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 3, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 4, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 5, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 6, call)                                                                      \
    }
#define QSA_WITH_ROWS_12(rows, call)                                                                                   \
    switch (rows) {                                                                                                    \
        QSA_CASE(uint32_t constant_rows, 1, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 2, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 3, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 4, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 6, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 8, call)                                                                      \
        QSA_CASE(uint32_t constant_rows, 12, call)                                                                     \
    }

/* Rows of the next pass, at most `most`, where `left` are left. Dealt out evenly: 8 rows of at most 6 are 4 and 4, not
 * 6 and 2, because 2 would wait for the latency of their chains. */
static inline size_t qsa_even_rows(size_t left, size_t most)
{
    const size_t passes = (left + most - 1) / most;
    return (left + passes - 1) / passes;
}

/* The most rows that QSA_WITH_ROWS_12 has code for. */
static inline size_t qsa_rows_of_12(size_t left)
{
    return left >= 12 ? 12 : left >= 8 ? 8 : left >= 6 ? 6 : left < 4 ? left : 4;
}

/* Rows of q, or of p, that are addressed from one register: as base, base + stride and base + 2 * stride. More would
 * need multiples of the stride that no address mode has, and one register a row is more than there are. */
enum { QSA_ADDRESSED_ROWS = 3 };

/* Heads of attention whose chains wait, between blocks of tokens, in one buffer on the stack. */
enum { QSA_HEADS_TOGETHER = 12 };

#endif
