/* SPDX-License-Identifier: Apache-2.0 */
/* The selection of a query whose groups were split into ranges, each scanned on its own.
 *
 * A range keeps all its candidates and a copy of its best few. The k-th largest of all the few is a lower bound of the
 * k-th largest of all candidates. A range with some of its few below that bound has no further members; only the others
 * are read in full. Where good scores are spread over the ranges, a merge reads little more than k candidates; where
 * they are not, it reads all of the ranges that hold them. The result is the same. */
#ifndef QSA_SELECT_MERGE_H
#define QSA_SELECT_MERGE_H

#include "select/select.h"

typedef struct qsa_range {
    qsa_candidate *all; /* in order of group */
    uint32_t n_all, n_few;
    int64_t bound; /* upper bound of the bits of candidates outside the few; -1: there are none */
} qsa_range;

/* The ranges of one query. */
typedef struct qsa_ranges {
    const qsa_kernels *kernels;
    uint32_t k, n;
    qsa_range *ranges;  /* [n] in order of group */
    qsa_candidate *few; /* [n][qsa_few_limit(k, n)] */
} qsa_ranges;

/* How many candidates a range copies: its share of k, half as much again, and a constant. More ranges, fewer each. */
uint32_t qsa_few_limit(uint32_t k, uint32_t n_ranges);

/* Keeps what the scan of range i found; found's buffer must not change until the merge. buffer: scratch of the same
 * capacity. */
void qsa_ranges_leave(const qsa_ranges *ranges, uint32_t i, const qsa_selection *found, qsa_candidate *buffer);

/* Groups of the best min(k, all) candidates, in order; returns how many. Reorders the candidates. buffer: scratch
 * [qsa_selection_capacity(k)]. */
uint32_t qsa_ranges_merge(const qsa_ranges *ranges, qsa_candidate *buffer, uint32_t *out_groups);

#endif
