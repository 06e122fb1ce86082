/* SPDX-License-Identifier: Apache-2.0 */
/* Scores, membership and emission on plain arrays (SPEC section 4).
 *
 * Membership and emission are two contracts. Membership: the best k groups by (score descending, group ascending).
 * Emission: the tokens of the selected groups, then the tail, in ascending order of position. Both are unique, whatever
 * the number of threads or the instruction set. */
#ifndef QSA_SELECT_H
#define QSA_SELECT_H

#include <qsa/config.h>

QSA_BEGIN_DECLS

/* Scores of one index query against n_groups pooled keys: sum over heads of max(q.k, 0), unscaled, >= +0.
 * query [heads][dim], normed and rotated; pooled [n_groups][dim]; out_scores [n_groups].
 * Errors: QSA_E_ARGUMENT, QSA_E_NONFINITE. */
QSA_API qsa_status qsa_score(const float *query, uint32_t heads, uint32_t dim, const float *pooled, size_t n_groups,
                             float *out_scores);

/* The best min(k, n) of n scores, k >= 1. out_groups [min(k, n)], ascending.
 * Errors: QSA_E_ARGUMENT, QSA_E_LIMIT (k beyond QSA_MAX_BUDGET), QSA_E_NONFINITE (a NaN or negative score, naming the
 * group). */
QSA_API qsa_status qsa_select(const float *scores, size_t n, uint32_t k, uint32_t *out_groups, uint32_t *out_n);

/* The selected tokens of a query that sees n_tokens tokens, as offsets from the run's first token: those of the
 * selected groups, then the tail. groups [n_groups], ascending, each below n_tokens / ratio; out_tokens has room for
 * n_groups * ratio + ratio - 1. Errors: QSA_E_ARGUMENT (groups not ascending or out of range). */
QSA_API qsa_status qsa_selected_tokens(const uint32_t *groups, uint32_t n_groups, uint32_t ratio, uint64_t n_tokens,
                                       uint32_t *out_tokens, uint32_t *out_n);

QSA_END_DECLS
#endif
