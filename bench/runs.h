/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of one token, and of a chunk of a prompt, through QSA layers of the released shape: what is run in a block, and
 * what of it cannot be spared. */
#ifndef QSA_BENCH_RUNS_H
#define QSA_BENCH_RUNS_H

#include "bench/state.h"

enum { BENCH_MAX_ITEMS = 2 * BENCH_MAX_DEPTHS + 4 };

typedef struct bench_runs {
    bench_state state;
    float *output; /* [layers of a block][tokens][q] */
    bench_item *items;
    size_t n_items;
} bench_runs;

/* To be closed whatever the result. */
bool bench_runs_open(bench_runs *all, const bench_request *r);
void bench_runs_close(bench_runs *all);

/* Adds an item, which runs on the pool or, without one, phase by phase on the crew. One token: all layers; more: some
 * of them, others in the next block. */
bench_item *bench_runs_add(bench_runs *all, uint32_t depth, uint32_t tokens, qsa_threads *pool, crew *crew);

/* Layers in a block of an item. */
uint32_t bench_runs_layers(const bench_item *item);

/* Of one layer, for a token that sees `visible` tokens: bytes of pooled keys (0 while every group is chosen), bytes of
 * K and V of the row, floating point operations over the row. */
double bench_scan_bytes(const qsa_config *c, uint64_t visible);
double bench_row_bytes(const qsa_config *c, uint64_t visible);
double bench_row_operations(const qsa_config *c, uint64_t visible);

#endif
