/* SPDX-License-Identifier: Apache-2.0 */
/* NEON. */
#include "products/vector_neon.h"

#include "products/integers.inc"

#include "products/floats.inc"

QSA_PRODUCTS_FUNCTIONS(neon)
QSA_PRODUCTS_TABLE(neon, "neon", "neon");
