/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over the selected tokens of a query, on plain arrays: softmax(QK^T / sqrt(D)) V in the canonical order of
 * SPEC sections 5 and 6. Dense attention is the same code over all tokens. */
#ifndef QSA_ATTEND_H
#define QSA_ATTEND_H

#include <qsa/config.h>

QSA_BEGIN_DECLS

/* One query over the n selected tokens `tokens`, ascending. The shape comes from config.
 * q [q_heads][head_dim], normed and rotated; k, v [tokens][kv_heads][head_dim], as stored, widened to f32;
 * out [q_heads][head_dim]. Allocates O(n) for the call.
 * Errors: QSA_E_ARGUMENT (no token, or not ascending), QSA_E_NONFINITE, QSA_E_MEMORY. */
QSA_API qsa_status qsa_attend_selected(const qsa_config *config, const float *q, const float *k, const float *v,
                                       const uint32_t *tokens, uint32_t n, float *out);

/* The same over all tokens 0 .. n-1. */
QSA_API qsa_status qsa_attend_dense(const qsa_config *config, const float *q, const float *k, const float *v,
                                    uint32_t n, float *out);

QSA_END_DECLS
#endif
