/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of QSA layers of Qwen3.8-Flash-Next's shape, filled with random projections: steps that want no output only
 * update the cache. Every layer holds the same numbers in memory of its own, so that no layer finds them in the
 * processor's caches. */
#ifndef QSA_BENCH_HISTORY_H
#define QSA_BENCH_HISTORY_H

#include "bench/options.h"

typedef struct bench_history {
    qsa_config config;
    qsa_memory_plan plan;
    qsa_cache *cache;
    qsa_seq seq;      /* as long as the largest depth; what is measured runs on forks of it */
    float *inputs[5]; /* q, k, v, index_q, raw_key: [INPUT_TOKENS][per_token] */
    size_t per_token[5];
} bench_history;

/* An empty sequence. allocator NULL: the library's own. To be closed whatever the result. */
bool bench_history_open(bench_history *h, const bench_options *o, const qsa_allocator *allocator);
void bench_history_close(bench_history *h);

/* Appends that many tokens to the empty sequence. */
bool bench_history_fill(bench_history *h, qsa_threads *threads, uint32_t tokens);

/* Inputs of at most BENCH_CHUNK tokens: the same for every measured step. */
qsa_tensors bench_history_tensors(const bench_history *h);

/* A new sequence with the first `depth` tokens, for one measured step. */
bool bench_history_fork(bench_history *h, uint32_t depth, qsa_seq *out_seq);

#endif
