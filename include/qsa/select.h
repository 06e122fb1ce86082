/* SPDX-License-Identifier: Apache-2.0 */
/* Scores, membership and emission on plain arrays (SPEC section 4).
 *
 * Membership and emission are two contracts: the chosen set is the best k by (score descending, group ascending); the
 * row is emitted in ascending order of position. Both are unique, whatever the thread count or instruction set. */
#ifndef QSA_SELECT_H
#define QSA_SELECT_H

#include <qsa/config.h>

QSA_BEGIN_DECLS

/* Scores of one index query against n_groups pooled keys. query [heads][dim] normed and rotated, pooled
 * [n_groups][dim], out [n_groups]; unscaled, >= +0. Errors: QSA_E_NONFINITE, QSA_E_ARGUMENT. */
QSA_API qsa_status qsa_score(const float *query, uint32_t heads, uint32_t dim, const float *pooled, size_t n_groups,
                             float *out_scores);

/* The best min(k, n) of n scores. out_groups [min(k, n)], ascending. A score must be a number; a negative one is
 * refused (scores are sums of positive parts). k at least 1.
 * Errors: QSA_E_NONFINITE naming the group, QSA_E_ARGUMENT, QSA_E_LIMIT (k beyond QSA_MAX_BUDGET). */
QSA_API qsa_status qsa_select(const float *scores, size_t n, uint32_t k, uint32_t *out_groups, uint32_t *out_n);

/* The row of a query that sees n_tokens tokens: the chosen groups (ascending, each below n_tokens / ratio) expanded,
 * then the tail; offsets from the first token of the run. out_row has room for n_groups * ratio + ratio - 1.
 * Errors: QSA_E_ARGUMENT (groups not ascending or out of range). */
QSA_API qsa_status qsa_row(const uint32_t *groups, uint32_t n_groups, uint32_t ratio, uint64_t n_tokens,
                           uint32_t *out_row, uint32_t *out_n);

QSA_END_DECLS
#endif
