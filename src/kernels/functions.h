/* SPDX-License-Identifier: Apache-2.0 */
/* Declares every kernel of kernels.inc. */
#ifndef QSA_KERNELS_FUNCTIONS_H
#define QSA_KERNELS_FUNCTIONS_H

#include "kernels/kernels.h"

#define QSA_TABLE_BEGIN(isa, requirement)
#define QSA_KERNEL(operation, isa) qsa_##operation##_fn qsa_##operation##__##isa;
#define QSA_TABLE_END
#include "kernels/kernels.inc"
#undef QSA_TABLE_BEGIN
#undef QSA_KERNEL
#undef QSA_TABLE_END

#endif
