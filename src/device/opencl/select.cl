/* SPDX-License-Identifier: Apache-2.0 */
/* Scores and selection (SPEC section 4), without a sort and in bounded memory.
 *
 * A score is >= +0, so its bits order as an unsigned integer. A work-group scans the groups of a query (or of a range
 * of its pages) in order and appends those that reach a floor to a buffer. When the buffer is full, a radix select
 * finds the k-th largest; what is above it and the first ones equal to it stay, and the floor rises above it: later
 * equal ones have higher positions and lose. The buffer is always in order of position. */

/* A group and its score's bits. */
typedef uint2 candidate_t;

/* Groups that a work-item scores at once, neighbours in a page; and a work-group. */
#define AT_ONCE QSA_GROUP_WIDTH
#define STRETCH (QSA_ITEMS * AT_ONCE)
typedef VECTOR(float, AT_ONCE) scores_t;

#define BINS 2048
typedef struct {
    uint histogram[BINS];
    uint bits[STRETCH];
    uint counts[QSA_ITEMS];
} select_t;

/* Sum of counts before this work-item; *total: of all. Called between two barriers. */
uint count_before(local const uint *counts, uint *total)
{
    uint before = 0, all = 0;
    for (uint i = 0; i < QSA_ITEMS; i++) {
        before += i < get_local_id(0) ? counts[i] : 0;
        all += counts[i];
    }
    *total = all;
    return before;
}

/* Bits of the k-th largest of count candidates, count > k; *equals: how many equal to it are among the best k. All
 * work-items return the same. */
uint kth_largest(global const candidate_t *candidates, uint count, uint k, local select_t *memory, uint *equals)
{
    uint prefix = 0, mask = 0;
    for (uint shift = 32; shift > 0;) { /* digits of 11, 11 and 10 bits, from the top */
        const uint width = shift < 11 ? shift : 11, digit_mask = (1u << width) - 1;
        shift -= width;
        for (uint i = get_local_id(0); i < BINS; i += QSA_ITEMS)
            memory->histogram[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = get_local_id(0); i < count; i += QSA_ITEMS)
            if ((candidates[i].y & mask) == prefix)
                atomic_inc(&memory->histogram[(candidates[i].y >> shift) & digit_mask]);
        barrier(CLK_LOCAL_MEM_FENCE);
        uint share = 0;
        for (uint i = 0; i < BINS / QSA_ITEMS; i++)
            share += memory->histogram[get_local_id(0) * (BINS / QSA_ITEMS) + i];
        memory->counts[get_local_id(0)] = share;
        barrier(CLK_LOCAL_MEM_FENCE);
        uint part = QSA_ITEMS - 1;
        while (memory->counts[part] < k)
            k -= memory->counts[part--];
        uint bin = (part + 1) * (BINS / QSA_ITEMS) - 1;
        while (memory->histogram[bin] < k)
            k -= memory->histogram[bin--];
        prefix |= bin << shift;
        mask |= digit_mask << shift;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    *equals = k;
    return prefix;
}

/* Of candidates with the threshold's score the first `taken` are kept. Nonzero only in a test, which keeps the last. */
#ifdef QSA_PLANT_ARRIVAL /* lets the highest position win; for the tests */
#define PASSED_OVER(all, taken) ((all) - (taken))
#else
#define PASSED_OVER(all, taken) 0
#endif

/* Shrinks to the best k in place, in order; returns how many remain. Raises *floor. */
uint shrink(global candidate_t *candidates, uint count, uint k, local select_t *memory, uint *floor)
{
    if (count <= k)
        return count;
    uint equals;
    const uint threshold = kth_largest(candidates, count, k, memory, &equals);
    uint kept = 0;
    for (uint base = 0; base < count; base += QSA_ITEMS) {
        const uint i = base + get_local_id(0);
        const candidate_t own = candidates[i < count ? i : count - 1];
        const uint above = i < count && own.y > threshold, equal = i < count && own.y == threshold;
        memory->counts[get_local_id(0)] = above | equal << 16;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        uint all;
        const uint before = count_before(memory->counts, &all), equals_before = before >> 16;
        const uint taken = min(equals, all >> 16), passed = PASSED_OVER(all >> 16, taken);
        const uint taken_before = equals_before < passed ? 0 : min(equals_before - passed, taken);
        if (above || (equal && equals_before >= passed && taken_before < taken))
            candidates[kept + (before & 0xffffu) + taken_before] = own;
        kept += (all & 0xffffu) + taken;
        equals -= taken;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    *floor = threshold + 1;
    return kept;
}

/* Appends the scores in memory->bits that reach the floor; group numbers count from `first`, and [begin, end) are
 * candidates. `last`: appends nothing and only shrinks to the best. (One function, so that shrink is compiled once.) */
uint offer(global candidate_t *candidates, uint count, ulong first, ulong begin, ulong end, bool last,
           local select_t *memory, uint *floor)
{
    const uint lane = get_local_id(0) * AT_ONCE, offered = *floor;
    uint mine = 0;
    for (uint i = lane; i < lane + AT_ONCE && !last; i++)
        mine += first + i >= begin && first + i < end && memory->bits[i] >= offered;
    memory->counts[get_local_id(0)] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint all;
    uint at = count_before(memory->counts, &all);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (last || count + all > QSA_CANDIDATES)
        count = shrink(candidates, count, QSA_BUDGET_GROUPS, memory, floor);
    at += count;
    for (uint i = lane; i < lane + AT_ONCE && !last; i++)
        if (first + i >= begin && first + i < end && memory->bits[i] >= offered)
            candidates[at++] = (candidate_t)((uint)(first + i), memory->bits[i]);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return count + all;
}

/* Scores of AT_ONCE neighbouring groups of a page: sum over heads of max(q.k, 0). */
scores_t score(global const float *query, global const index_type *keys)
{
    scores_t sum = (scores_t)0.0f;
    for (uint h = 0; h < QSA_INDEX_HEADS; h += QSA_HEADS_SCORED) {
        scores_t dot[QSA_HEADS_SCORED];
        for (uint i = 0; i < QSA_HEADS_SCORED; i++)
            dot[i] = (scores_t)0.0f;
        for (uint d = 0; d < QSA_INDEX_DIM; d++) {
            const scores_t key = LOAD_INDEX(AT_ONCE, keys + d * PAGE_GROUPS);
            for (uint i = 0; i < QSA_HEADS_SCORED; i++)
                dot[i] = fma((scores_t)query[(h + i) * QSA_INDEX_DIM + d], key, dot[i]);
        }
        for (uint i = 0; i < QSA_HEADS_SCORED; i++)
            sum = sum + select(dot[i], (scores_t)0.0f, isless(dot[i], (scores_t)0.0f));
    }
    return sum;
}

bool drops(const token_t token)
{
    return token.end_group - token.first_group > QSA_BUDGET_GROUPS;
}

/* The best candidates of pages [begin, end) of a sequence, in order. */
uint scan_pages(global const float *query, const token_t token, const entry_t entry, global const uint *tables,
                ulong begin, ulong end, global const index_type *pooled, global candidate_t *candidates,
                local select_t *memory)
{
    const uint before = (uint)(entry.first_slot / QSA_RATIO); /* groups of the table before the run */
    uint count = 0, floor = 0;
    const ulong stop = end * PAGE_GROUPS;
    for (ulong at = begin * PAGE_GROUPS; at < stop + STRETCH; at += STRETCH) { /* one pass more: the last */
        const ulong mine = at + get_local_id(0) * AT_ONCE;
        scores_t scores = (scores_t)0.0f;
        if (mine < stop)
            scores = score(query,
                           pooled + page_of(tables, entry, mine / PAGE_GROUPS) * POOLED_PAGE + mine % PAGE_GROUPS);
        STORE(AT_ONCE, AS_UINT(AT_ONCE, scores), memory->bits + get_local_id(0) * AT_ONCE);
        count = offer(candidates, count, at, token.first_group + before, min(token.end_group + before, stop),
                      at >= stop, memory, &floor);
    }
    for (uint i = get_local_id(0); i < count; i += QSA_ITEMS)
        candidates[i].x -= before;
    barrier(CLK_GLOBAL_MEM_FENCE);
    return count;
}

/* A unit is a range of a query's pages. candidates [work-groups][QSA_CANDIDATES]; partial [units][budget], the best of
 * each range; with one range per query this is already the query's selection. */
kernel __attribute__((reqd_work_group_size(QSA_ITEMS, 1, 1))) void scan(
    global const float *in, uint n_tokens, uint ranges, global const token_t *tokens, global const entry_t *entries,
    global const uint *tables, global const index_type *pooled, global candidate_t *candidates,
    global candidate_t *partial, global uint *n_partial, global uint *selected, global uint *n_selected)
{
    local select_t memory;
    candidates += (ulong)get_group_id(0) * QSA_CANDIDATES;
    for (uint unit = get_group_id(0); unit < n_tokens * ranges; unit += get_num_groups(0)) {
        const uint t = unit / ranges, range = unit % ranges;
        const token_t token = tokens[t];
        if (!drops(token))
            continue;
        const entry_t entry = entries[token.entry];
        const ulong before = entry.first_slot / QSA_RATIO;
        const ulong first = (token.first_group + before) / PAGE_GROUPS;
        const ulong pages = (token.end_group + before + PAGE_GROUPS - 1) / PAGE_GROUPS - first;
        const uint count = scan_pages(in + (ulong)t * IN_ALL + IN_INDEX_Q, token, entry, tables,
                                      first + pages * range / ranges, first + pages * (range + 1) / ranges, pooled,
                                      candidates, &memory);
        if (ranges == 1) {
            for (uint i = get_local_id(0); i < count; i += QSA_ITEMS)
                selected[(ulong)t * QSA_BUDGET_GROUPS + i] = candidates[i].x;
            n_selected[t] = count;
        } else {
            for (uint i = get_local_id(0); i < count; i += QSA_ITEMS)
                partial[(ulong)unit * QSA_BUDGET_GROUPS + i] = candidates[i];
            n_partial[unit] = count;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}

/* The ranges of a query are in order of group: one more selection over them merges them. */
kernel __attribute__((reqd_work_group_size(QSA_ITEMS, 1, 1))) void merge(
    uint n_tokens, uint ranges, global const token_t *tokens, global candidate_t *candidates,
    global const candidate_t *partial, global const uint *n_partial, global uint *selected, global uint *n_selected)
{
    local select_t memory;
    candidates += (ulong)get_group_id(0) * QSA_CANDIDATES;
    for (uint t = get_group_id(0); t < n_tokens; t += get_num_groups(0)) {
        if (!drops(tokens[t]))
            continue;
        uint count = 0, floor = 0, unit = t * ranges, base = 0;
        for (bool last = false; !last;) {
            last = unit == (t + 1) * ranges; /* one pass more than ranges: appends nothing */
            const uint n = last ? 0 : n_partial[unit], i = base + get_local_id(0);
            candidate_t own = (candidate_t)(0, 0);
            if (i < n)
                own = partial[(ulong)unit * QSA_BUDGET_GROUPS + i];
            const uint offered = i < n && own.y >= floor;
            memory.counts[get_local_id(0)] = offered;
            barrier(CLK_LOCAL_MEM_FENCE);
            uint all;
            const uint before = count_before(memory.counts, &all);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (last || count + all > QSA_CANDIDATES)
                count = shrink(candidates, count, QSA_BUDGET_GROUPS, &memory, &floor);
            if (offered)
                candidates[count + before] = own;
            count += all;
            base += QSA_ITEMS;
            if (base >= n) {
                unit++;
                base = 0;
            }
            barrier(CLK_GLOBAL_MEM_FENCE);
        }
        for (uint i = get_local_id(0); i < count; i += QSA_ITEMS)
            selected[(ulong)t * QSA_BUDGET_GROUPS + i] = candidates[i].x;
        n_selected[t] = count;
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
