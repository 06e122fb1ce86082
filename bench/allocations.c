/* SPDX-License-Identifier: Apache-2.0 */
/* Does a warm step allocate? Asked of a small cache, since the large one has the library's own allocator, which it
 * would have in a host. */
#include "bench/state.h"
#include "console/memory.h"

#include <stdlib.h>

enum { STEPS = 8 };

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

static bool run_steps(const bench_state *s, uint32_t position, float *output)
{
    const size_t q = s->per_token[0];
    const qsa_tensors tensors = bench_state_tensors(s);
    const qsa_output out = {output, q, s->config.head_dim};
    for (uint32_t i = 0; i < STEPS; i++) {
        const qsa_entry entry = {.seq = s->history, .position = position + i, .tokens = 1};
        qsa_step *step;
        if (!bench_good(qsa_step_begin(s->cache, &entry, 1, &step)))
            return false;
        if (!bench_good(qsa_step_layer(step, 0, &tensors, &out))) {
            qsa_step_abort(step);
            return false;
        }
        if (!bench_good(qsa_step_commit(step, NULL)))
            return false;
    }
    return true;
}

static bool count_in(bench_state *s, qsa_threads *threads, uint32_t depth, uint64_t *calls)
{
    float *output = memory_new(s->per_token[0], sizeof *output);
    bool is_good = bench_state_fill(s, threads, depth) && run_steps(s, depth, output);
    const uint64_t before = *calls;
    is_good = is_good && run_steps(s, depth + STEPS, output);
    *calls -= before;
    free(output);
    return is_good;
}

bool bench_count_allocations(const bench_request *r, uint64_t *out_calls)
{
    bench_request small = *r;
    small.layers = small.n_depths = small.threads = 1;
    small.depths[0] = 2112; /* beyond the cut */
    *out_calls = 0;
    const qsa_allocator counting = {counting_allocate, counting_release, out_calls};
    bench_state state;
    qsa_threads *threads = NULL;
    const bool is_good = bench_state_open(&state, &small, &counting) && bench_good(qsa_threads_create(1, &threads)) &&
                         count_in(&state, threads, small.depths[0], out_calls);
    qsa_threads_destroy(threads);
    bench_state_close(&state);
    return is_good;
}
