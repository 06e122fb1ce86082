/* SPDX-License-Identifier: Apache-2.0 */
/* NEON with dot products. */
#include "products/vector_neon.h"

#include "products/integers.inc"

#include "products/floats.inc"

QSA_PRODUCTS_FUNCTIONS(neon_dotprod)
QSA_PRODUCTS_TABLE(neon_dotprod, "neon", "neon dotprod");
