/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/allocations.h"

#include "bench/history.h"
#include "bench/status.h"
#include "console/memory.h"

#include <stdlib.h>

enum { STEPS = 8, SPARSE_DEPTH = 2112 /* tokens; beyond the budget */ };

static void *counting_allocate(void *context, size_t size_bytes, size_t alignment)
{
    uint64_t *calls = context;
    ++*calls;
    return aligned_alloc(alignment, (size_bytes + alignment - 1) / alignment * alignment);
}

static void counting_release(void *context, void *memory, size_t size_bytes)
{
    (void)context, (void)size_bytes;
    free(memory);
}

static bool run_steps(const bench_history *h, uint32_t position, float *output)
{
    const size_t q = h->per_token[0];
    const qsa_tensors tensors = bench_history_tensors(h);
    const qsa_output out = {output, q, h->config.head_dim};
    for (uint32_t i = 0; i < STEPS; i++) {
        const qsa_entry entry = {.seq = h->seq, .position = position + i, .tokens = 1};
        qsa_step *step;
        if (!bench_ok(qsa_step_begin(h->cache, &entry, 1, &step)))
            return false;
        if (!bench_ok(qsa_step_layer(step, 0, &tensors, &out))) {
            qsa_step_abort(step);
            return false;
        }
        if (!bench_ok(qsa_step_commit(step, NULL)))
            return false;
    }
    return true;
}

static bool count_in(bench_history *h, qsa_threads *threads, uint32_t depth, uint64_t *calls)
{
    float *output = memory_new(h->per_token[0], sizeof *output);
    bool is_good = bench_history_fill(h, threads, depth) && run_steps(h, depth, output);
    const uint64_t before = *calls;
    is_good = is_good && run_steps(h, depth + STEPS, output);
    *calls -= before;
    free(output);
    return is_good;
}

bool bench_count_allocations(const bench_options *o, uint64_t *out_calls)
{
    bench_options small = *o;
    small.layers = small.n_depths = small.threads = 1;
    small.depths[0] = SPARSE_DEPTH;
    *out_calls = 0;
    const qsa_allocator counting = {counting_allocate, counting_release, out_calls};
    bench_history history;
    qsa_threads *threads = NULL;
    const bool is_good = bench_history_open(&history, &small, &counting) && bench_ok(qsa_threads_create(1, &threads)) &&
                         count_in(&history, threads, small.depths[0], out_calls);
    qsa_threads_destroy(threads);
    bench_history_close(&history);
    return is_good;
}
