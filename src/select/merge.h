/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a query whose groups were cut into ranges, each of which was scanned on its own.
 *
 * A range leaves its candidates where they are and a copy of the best few. The k-th largest of all the few cannot be
 * above that of all candidates. A range of which a few are below it has nothing more to give; only of the others are
 * all candidates looked at. Where good scores are spread over the ranges, a merge so reads little more than k
 * candidates, and where they are not, all of the ranges that hold them. Neither can be seen in the result. */
#ifndef QSA_SELECT_MERGE_H
#define QSA_SELECT_MERGE_H

#include "select/select.h"

typedef struct qsa_range {
    qsa_candidate *all; /* in order of group */
    uint32_t n_all, n_few;
    int64_t bound; /* bits that no candidate exceeds which is not one of the few; -1: there is none */
} qsa_range;

/* The ranges of one query. */
typedef struct qsa_ranges {
    const qsa_kernels *kernels;
    uint32_t k, n;
    qsa_range *ranges;  /* [n] in order of group */
    qsa_candidate *few; /* [n][qsa_few_limit(k, n)] */
} qsa_ranges;

/* How many a range copies: half more than its share of k, and some. The smaller, the more ranges there are. */
uint32_t qsa_few_limit(uint32_t k, uint32_t n_ranges);

/* What the scan of range i found; its buffer stays as it is until the merge. buffer: working memory for as many. */
void qsa_ranges_leave(const qsa_ranges *ranges, uint32_t i, const qsa_selection *found, qsa_candidate *buffer);

/* Groups of the best min(k, all) candidates, in order; returns how many. Candidates are in any order afterwards.
 * buffer: working memory [qsa_selection_capacity(k)]. */
uint32_t qsa_ranges_merge(const qsa_ranges *ranges, qsa_candidate *buffer, uint32_t *out_groups);

#endif
