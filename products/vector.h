/* SPDX-License-Identifier: Apache-2.0 */
/* What the vector_*.h of all instruction sets share. A vector_*.h defines
 *   LANES                           32-bit lanes of a vector: rows, of integers; of floats, k
 *   GROUPS                          vectors of rows in a panel of integers
 *   FLOAT_ROWS, FLOAT_COLUMNS       rows and columns whose sums are in registers
 *   IN_REGISTER(x)
 *   rows, rows_at                   LANES rows and where they begin
 *   load_4_words, load_8_words, load_word, load_f16      bytes of all rows, rows in lanes
 *   low_f16, high_f16, to_floats, look_up, spread_bits, gather   parts of words
 *   pack_signed, dot                weights as the instruction set wants them, and their sums
 *   multiply_add, splat, store, prefetch
 *   load_f32s, load_f16s, load_bf16s, add_halves, add_halves_rows   floats
 *   quantise_block                  32 numbers of a column */
#ifndef QSA_PRODUCTS_VECTOR_H
#define QSA_PRODUCTS_VECTOR_H

#include <stdint.h>
#include <string.h>

/* A function that is a template: its constant arguments are known wherever it is called. */
#define INLINE static inline __attribute__((always_inline))

/* Unrolls the loop that follows completely, so that arrays of vectors live in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint8_t bytes __attribute__((vector_size(4 * LANES)));
typedef int32_t integers __attribute__((vector_size(4 * LANES)));
typedef float floats __attribute__((vector_size(4 * LANES)));

INLINE int32_t four_of(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return four;
}

#endif
