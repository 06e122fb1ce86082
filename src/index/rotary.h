/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary cos and sin inside the library, for the tables of a step. */
#ifndef QSA_INDEX_ROTARY_H
#define QSA_INDEX_ROTARY_H

#include <qsa/index.h>

/* cos [pairs], then sin [pairs] of a triple that has passed its range check. */
void qsa_rotary_fill(const qsa_rotary *rotary, qsa_triple triple, float *out_cos_sin);

#endif
