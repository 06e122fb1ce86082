/* SPDX-License-Identifier: Apache-2.0 */
#include "select/select.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { TILE_GROUPS = 64, SPARE_CANDIDATES = 3584 };

/* Digits of the radix, from the top: 11, 11 and 10 bits. */
enum { DIGITS = 3, BINS = 2048 };
static const struct {
    uint32_t shift, mask;
} digits[DIGITS] = {{21, 0x7ff}, {10, 0x7ff}, {0, 0x3ff}};

uint32_t qsa_selection_capacity(uint32_t k)
{
    uint32_t spare = k > SPARE_CANDIDATES ? k : SPARE_CANDIDATES;
    return k + spare + TILE_GROUPS;
}

void qsa_selection_begin(qsa_selection *selection, qsa_candidate *buffer, uint32_t capacity, uint32_t k)
{
    *selection = (qsa_selection){.buffer = buffer, .capacity = capacity, .k = k, .tau = -1};
}

static inline uint32_t bits_of(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits;
}

/* Most tiles far into a scan hold nothing above tau; this loop is a vector compare. */
static bool any_above(const float *scores, uint32_t n, int64_t tau)
{
    int32_t limit = (int32_t)tau, any = 0;
    for (uint32_t i = 0; i < n; i++)
        any |= (int32_t)bits_of(scores[i]) > limit;
    return any != 0;
}

void qsa_selection_offer(qsa_selection *selection, const float *scores, uint32_t first, uint32_t n)
{
    if (!any_above(scores, n, selection->tau))
        return;
    if (selection->count + n > selection->capacity)
        qsa_selection_shrink(selection);
    qsa_candidate *end = selection->buffer + selection->count;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(scores[i]);
        *end = (qsa_candidate){bits, first + i};
        end += (int64_t)bits > selection->tau;
    }
    selection->count = (uint32_t)(end - selection->buffer);
}

void qsa_selection_shrink(qsa_selection *selection)
{
    selection->count = qsa_shrink(selection->buffer, selection->count, selection->k, &selection->tau);
}

/* Bits of the k-th largest; *out_equal: how many equal to it belong to the best k. */
static uint32_t kth_largest(const qsa_candidate *candidates, uint32_t count, uint32_t k, uint32_t *out_equal)
{
    uint32_t prefix = 0, prefix_mask = 0;
    for (int d = 0; d < DIGITS; d++) {
        uint32_t histogram[BINS] = {0};
        for (uint32_t i = 0; i < count; i++)
            if ((candidates[i].bits & prefix_mask) == prefix)
                histogram[(candidates[i].bits >> digits[d].shift) & digits[d].mask]++;
        uint32_t bin = digits[d].mask;
        while (histogram[bin] < k)
            k -= histogram[bin--];
        prefix |= bin << digits[d].shift;
        prefix_mask |= digits[d].mask << digits[d].shift;
    }
    *out_equal = k;
    return prefix;
}

uint32_t qsa_shrink(qsa_candidate *candidates, uint32_t count, uint32_t k, int64_t *tau)
{
    if (count <= k)
        return count;
    uint32_t equal, threshold = kth_largest(candidates, count, k, &equal), kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool keep = candidates[i].bits > threshold;
        if (candidates[i].bits == threshold && equal > 0) {
            equal--;
            keep = true;
        }
        if (keep)
            candidates[kept++] = candidates[i];
    }
    assert(kept == k);
    *tau = threshold;
    return kept;
}
