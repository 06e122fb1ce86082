/* SPDX-License-Identifier: Apache-2.0 */
/* Merges the ranges of a split query. */
#include "select/merge.h"

#include <assert.h>
#include <string.h>

enum { FEW_MORE = 8 }; /* a small share of k varies by more than half of itself */

uint32_t qsa_few_limit(uint32_t k, uint32_t n_ranges)
{
    assert(k > 0 && n_ranges > 0);
    const uint32_t share = (k + n_ranges - 1) / n_ranges, few = share + share / 2 + FEW_MORE;
    return few < k ? few : k;
}

void qsa_ranges_leave(const qsa_ranges *ranges, uint32_t i, const qsa_selection *found, qsa_candidate *buffer)
{
    assert(i < ranges->n && found->k == ranges->k && found->count <= found->capacity && buffer != found->buffer);
    const uint32_t most = qsa_few_limit(ranges->k, ranges->n);
    qsa_range *range = &ranges->ranges[i];
    *range = (qsa_range){.all = found->buffer, .n_all = found->count, .bound = -1};
    memcpy(buffer, found->buffer, found->count * sizeof *buffer);
    range->n_few = qsa_shrink(ranges->kernels, buffer, found->count, most, &range->bound);
    memcpy(ranges->few + (size_t)i * most, buffer, range->n_few * sizeof *buffer);
}

/* Packs the few of all ranges; returns how many there are. */
static uint32_t pack_few(const qsa_ranges *ranges)
{
    const uint32_t most = qsa_few_limit(ranges->k, ranges->n);
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranges->n; i++) {
        memmove(ranges->few + count, ranges->few + (size_t)i * most, ranges->ranges[i].n_few * sizeof *ranges->few);
        count += ranges->ranges[i].n_few;
    }
    return count;
}

static bool all_below(const qsa_ranges *ranges, uint32_t threshold)
{
    for (uint32_t i = 0; i < ranges->n; i++)
        if (ranges->ranges[i].bound >= threshold)
            return false;
    return true;
}

/* The best of the packed few, and of all candidates of ranges that may have more. Every candidate taken reaches the
 * threshold. */
static uint32_t merge_all(const qsa_ranges *ranges, uint32_t threshold, qsa_candidate *buffer)
{
    const qsa_kernels *kernels = ranges->kernels;
    const uint32_t k = ranges->k, capacity = qsa_selection_capacity(k);
    qsa_candidate *few = ranges->few;
    uint32_t count = 0;
    int64_t tau;
    for (uint32_t i = 0; i < ranges->n; i++) {
        const qsa_range *range = &ranges->ranges[i];
        const bool is_whole = range->bound >= threshold;
        qsa_candidate *list = is_whole ? range->all : few;
        uint32_t n = is_whole ? range->n_all : range->n_few;
        few += range->n_few;
        n = kernels->keep(list, n, threshold, n);
        n = qsa_shrink(kernels, list, n, k, &tau);
        if (count + n > capacity)
            count = qsa_shrink(kernels, buffer, count, k, &tau);
        assert(n <= k && count + n <= capacity);
        memcpy(buffer + count, list, n * sizeof *list);
        count += n;
    }
    return qsa_shrink(kernels, buffer, count, k, &tau);
}

uint32_t qsa_ranges_merge(const qsa_ranges *ranges, qsa_candidate *buffer, uint32_t *out_groups)
{
    const qsa_candidate *members = ranges->few;
    uint32_t count = pack_few(ranges), equal = count, threshold = 0;
    if (count > ranges->k)
        threshold = qsa_kth_largest(ranges->few, count, ranges->k, &equal);
    if (all_below(ranges, threshold))
        count = ranges->kernels->keep(ranges->few, count, threshold, equal);
    else {
        count = merge_all(ranges, threshold, buffer);
        members = buffer;
    }
    assert(count <= ranges->k);
    for (uint32_t i = 0; i < count; i++)
        out_groups[i] = members[i].group;
    return count;
}
