/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over a row on plain arrays (SPEC sections 5 and 6). The dense oracle is the same code over the dense row.
 */
#ifndef QSA_ATTEND_H
#define QSA_ATTEND_H

#include <qsa/config.h>

QSA_BEGIN_DECLS

/* One query over the tokens row[0..n), ascending. q [q_heads][head_dim] normed and rotated; k, v
 * [tokens][kv_heads][head_dim] as stored, widened to f32; out [q_heads][head_dim]. Shape from config.
 * Memory: allocates O(n) for the call. Errors: QSA_E_ARGUMENT (empty or unsorted row), QSA_E_NONFINITE,
 * QSA_E_MEMORY. */
QSA_API qsa_status qsa_attend_row(const qsa_config *config, const float *q, const float *k, const float *v,
                                  const uint32_t *row, uint32_t n, float *out);

/* The same over the dense row 0..n-1. */
QSA_API qsa_status qsa_attend_dense(const qsa_config *config, const float *q, const float *k, const float *v,
                                    uint32_t n, float *out);

QSA_END_DECLS
#endif
