/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 with AVX-VNNI. */
#include "products/vector_avx2.h"

#include "products/integers.inc"

#include "products/floats.inc"

QSA_PRODUCTS_FUNCTIONS(avx_vnni)
QSA_PRODUCTS_TABLE(avx_vnni, "avx2", "avx2 vnni");
