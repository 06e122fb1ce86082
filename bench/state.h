/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of QSA layers of the released shape with a long history that nobody computed: steps that want no output store
 * random projections. Every layer holds the same numbers, in memory of its own. */
#ifndef QSA_BENCH_STATE_H
#define QSA_BENCH_STATE_H

#include "bench/bench.h"

typedef struct bench_state {
    qsa_config config;
    qsa_memory_plan plan;
    qsa_cache *cache;
    qsa_seq history;  /* as long as the largest depth; what is measured runs on forks of it */
    float *inputs[5]; /* q, k, v, index_q, raw_key: [INPUT_TOKENS][per_token] */
    size_t per_token[5];
} bench_state;

/* Without history. allocator NULL: the library's own. To be closed whatever the result. */
bool bench_state_open(bench_state *s, const bench_request *r, const qsa_allocator *allocator);
void bench_state_close(bench_state *s);

/* Makes the history that long. */
bool bench_state_fill(bench_state *s, qsa_threads *threads, uint32_t tokens);

/* Inputs of at most BENCH_CHUNK tokens: the same for each measurement. */
qsa_tensors bench_state_tensors(const bench_state *s);

/* A sequence that holds the first `depth` tokens of the history, for one measurement. */
bool bench_state_fork(bench_state *s, uint32_t depth, qsa_seq *out_seq);

#endif
