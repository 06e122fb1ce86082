/* SPDX-License-Identifier: Apache-2.0 */
/* Membership without a sort.
 *
 * A score is >= +0, so its bits order as an unsigned integer. A selection takes scores in ascending order of group and
 * keeps those above a threshold tau; when its buffer is full it finds the k-th largest by histograms of the bits, keeps
 * what is above it and the first equal ones, and raises tau to it. Later equals lose by position, so a strict > is
 * exact. The buffer stays in order of group: emission needs no sort. */
#ifndef QSA_SELECT_SELECT_H
#define QSA_SELECT_SELECT_H

#include "kernels/kernels.h"

typedef struct qsa_selection {
    const qsa_kernels *kernels;
    qsa_candidate *buffer; /* [capacity] */
    uint32_t capacity;
    uint32_t count;
    uint32_t k;
    int64_t tau; /* bits that a candidate must exceed; -1: below +0 */
} qsa_selection;

/* Room for k members, as many more between two shrinks as there were, and what is offered at once. */
uint32_t qsa_selection_capacity(uint32_t k);

void qsa_selection_begin(qsa_selection *selection, const qsa_kernels *kernels, qsa_candidate *buffer, uint32_t capacity,
                         uint32_t k);

/* Offers scores of the groups first .. first + n - 1, all above every group offered before. */
void qsa_selection_offer(qsa_selection *selection, const float *scores, uint32_t first, uint32_t n);

/* Shrinks to the best min(k, count), in order of group. */
void qsa_selection_shrink(qsa_selection *selection);

/* Bits of the k-th largest of count >= k candidates; *out_equal: how many equal to it belong to the best k. */
uint32_t qsa_kth_largest(const qsa_candidate *candidates, uint32_t count, uint32_t k, uint32_t *out_equal);

/* Shrinks `count` candidates in order of group to the best k, in place; returns how many remain. */
uint32_t qsa_shrink(const qsa_kernels *kernels, qsa_candidate *candidates, uint32_t count, uint32_t k, int64_t *tau);

#endif
