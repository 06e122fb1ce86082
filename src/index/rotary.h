/* SPDX-License-Identifier: Apache-2.0 */
/* Rotation inside the library: tables of a step. */
#ifndef QSA_INDEX_ROTARY_H
#define QSA_INDEX_ROTARY_H

#include <qsa/index.h>

/* cos [pairs], then sin [pairs] of a triple that is known to be in range. */
void qsa_rotary_fill(const qsa_rotary *rotary, qsa_triple triple, float *out_cos_sin);

#endif
