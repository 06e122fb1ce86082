/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 with VNNI. */
#include "products/vector_avx512.h"

#include "products/integers.inc"

#include "products/floats.inc"

QSA_PRODUCTS_FUNCTIONS(avx512_vnni)
QSA_PRODUCTS_TABLE(avx512_vnni, "avx512", "avx512 vnni");
