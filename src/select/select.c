/* SPDX-License-Identifier: Apache-2.0 */
/* A selection: offers, shrinks, and the k-th largest by histograms. */
#include "select/select.h"

#include <assert.h>
#include <qsa/config.h>

/* Shrinking at 2k candidates costs the least: each shrink halves the fraction of later groups that is appended. */
enum { OFFER_GROUPS = 256, LEAST_SPARE = 512 };

uint32_t qsa_selection_capacity(uint32_t k)
{
    assert(k > 0 && k <= QSA_MAX_BUDGET);
    uint32_t spare = k > LEAST_SPARE ? k : LEAST_SPARE;
    return k + spare + OFFER_GROUPS;
}

void qsa_selection_begin(qsa_selection *selection, const qsa_kernels *kernels, qsa_candidate *buffer, uint32_t capacity,
                         uint32_t k)
{
    assert(k > 0 && capacity >= k + OFFER_GROUPS);
    *selection = (qsa_selection){.kernels = kernels, .buffer = buffer, .capacity = capacity, .k = k, .tau = -1};
}

void qsa_selection_offer(qsa_selection *selection, const float *scores, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += OFFER_GROUPS) {
        const uint32_t count = n - i < OFFER_GROUPS ? n - i : OFFER_GROUPS;
        if (selection->count + count > selection->capacity)
            qsa_selection_shrink(selection);
        assert(selection->count + count <= selection->capacity);
        selection->count += selection->kernels->offer(scores + i, count, first + i, selection->tau,
                                                      selection->buffer + selection->count);
    }
}

void qsa_selection_shrink(qsa_selection *selection)
{
    selection->count =
        qsa_shrink(selection->kernels, selection->buffer, selection->count, selection->k, &selection->tau);
}

/* ---- the k-th largest ---- */

enum { BINS = 1024, FEW = 32 };

/* The interval of bits that is still possible, and the rank within it of the k-th largest. */
typedef struct interval {
    uint32_t low, high, k;
} interval;

static interval full_interval(const qsa_candidate *candidates, uint32_t count, uint32_t k)
{
    interval r = {UINT32_MAX, 0, k};
    for (uint32_t i = 0; i < count; i++) {
        r.low = candidates[i].bits < r.low ? candidates[i].bits : r.low;
        r.high = candidates[i].bits > r.high ? candidates[i].bits : r.high;
    }
    return r;
}

/* Splits the interval into at most BINS bins and continues with the one that holds the k-th largest. Returns that
 * bin's count. */
static uint32_t narrow(const qsa_candidate *candidates, uint32_t count, interval *r)
{
    assert(r->low < r->high && r->k > 0 && r->k <= count);
    uint32_t histogram[BINS] = {0}, shift = 0;
    const uint32_t width = r->high - r->low;
    while (width >> shift >= BINS)
        shift++;
    for (uint32_t i = 0; i < count; i++)
        if (candidates[i].bits - r->low <= width) /* below the interval the difference wraps around */
            histogram[(candidates[i].bits - r->low) >> shift]++;
    uint32_t bin = width >> shift;
    while (histogram[bin] < r->k)
        r->k -= histogram[bin--];
    r->low += bin << shift;
    const uint32_t last = (1u << shift) - 1;
    r->high = r->high - r->low < last ? r->high : r->low + last;
    return histogram[bin];
}

/* The same, down to one value, once at most FEW candidates are left. */
static void pick(const qsa_candidate *candidates, uint32_t count, interval *r)
{
    uint32_t bits[FEW], n = 0;
    const uint32_t width = r->high - r->low;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t one = candidates[i].bits;
        if (one - r->low > width) /* one comparison, nearly always true; two would mispredict half of the time */
            continue;
        uint32_t place = n++;
        for (; place > 0 && bits[place - 1] < one; place--)
            bits[place] = bits[place - 1];
        bits[place] = one;
    }
    assert(r->k > 0 && r->k <= n);
    r->low = r->high = bits[r->k - 1];
    uint32_t larger = 0;
    while (bits[larger] > r->low)
        larger++;
    r->k -= larger;
}

uint32_t qsa_kth_largest(const qsa_candidate *candidates, uint32_t count, uint32_t k, uint32_t *out_equal)
{
    assert(k > 0 && k <= count);
    interval r = full_interval(candidates, count, k);
    while (r.low < r.high)
        if (narrow(candidates, count, &r) <= FEW && r.low < r.high)
            pick(candidates, count, &r);
    *out_equal = r.k;
    return r.low;
}

uint32_t qsa_shrink(const qsa_kernels *kernels, qsa_candidate *candidates, uint32_t count, uint32_t k, int64_t *tau)
{
    if (count <= k)
        return count;
    uint32_t equal, threshold = qsa_kth_largest(candidates, count, k, &equal);
    const uint32_t kept = kernels->keep(candidates, count, threshold, equal);
    assert(kept == k);
    *tau = threshold;
    return kept;
}
