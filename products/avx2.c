/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2, and what an AVX-512 processor without byte dot products does best. */
#include "products/vector_avx2.h"

#include "products/integers.inc"

#include "products/floats.inc"

QSA_PRODUCTS_FUNCTIONS(avx2)
QSA_PRODUCTS_TABLE(avx2, "avx2", "avx2");
const qsa_products qsa_products_avx512 = {"avx512", "avx512 as avx2", quantise_columns, multiply_tiles};
