/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_BENCH_ALLOCATIONS_H
#define QSA_BENCH_ALLOCATIONS_H

#include "bench/options.h"

/* Calls of the cache's allocator in eight decode steps that follow eight others, in a small cache whose queries have to
 * select. (The measured cache keeps the library's own allocator, as a host would.) */
bool bench_count_allocations(const bench_options *o, uint64_t *out_calls);

#endif
