/* SPDX-License-Identifier: Apache-2.0 */
/* Top-k selection without a sort.
 *
 * A score is >= +0, so its bits order as an unsigned integer. A selection takes scores in ascending order of group and
 * appends those above a threshold tau to a buffer. When the buffer is full, histograms of the bits find the k-th
 * largest; candidates above it and the first ones equal to it stay, and tau rises to it. Ties go to the lower position,
 * so a strict > is exact for later groups. The buffer stays in order of group: output needs no sort. */
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

/* Buffer capacity for k members: k, as many more between two shrinks, and the groups offered at once. */
uint32_t qsa_selection_capacity(uint32_t k);

void qsa_selection_begin(qsa_selection *selection, const qsa_kernels *kernels, qsa_candidate *buffer, uint32_t capacity,
                         uint32_t k);

/* Offers scores of the groups first .. first + n - 1, all above the groups offered before. */
void qsa_selection_offer(qsa_selection *selection, const float *scores, uint32_t first, uint32_t n);

/* Shrinks to the best min(k, count), in order of group. */
void qsa_selection_shrink(qsa_selection *selection);

/* Bits of the k-th largest of count >= k candidates; *out_equal: how many equal to it are among the best k. */
uint32_t qsa_kth_largest(const qsa_candidate *candidates, uint32_t count, uint32_t k, uint32_t *out_equal);

/* Shrinks `count` candidates in order of group to the best k, in place; returns how many remain. */
uint32_t qsa_shrink(const qsa_kernels *kernels, qsa_candidate *candidates, uint32_t count, uint32_t k, int64_t *tau);

#endif
