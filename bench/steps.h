/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of QSA layers: a decode step (one token, all layers), or a prefill step (some tokens, a few layers), and the
 * bytes and operations they need at least. */
#ifndef QSA_BENCH_STEPS_H
#define QSA_BENCH_STEPS_H

#include "bench/blocks.h"
#include "bench/history.h"

enum { BENCH_MAX_ITEMS = 2 * BENCH_MAX_DEPTHS + 4 };

typedef struct bench_steps {
    bench_history history;
    float *output; /* [layers of a block][tokens][q] */
    bench_item *items;
    size_t n_items;
} bench_steps;

/* To be closed whatever the result. */
bool bench_steps_open(bench_steps *all, const bench_options *o);
void bench_steps_close(bench_steps *all);

/* Adds an item of `tokens` after `depth`. by_phase: splits[phase] gets the seconds of each phase, over all layers.
 * Prefill runs a few layers per block and the next ones in the next block. */
bench_item *bench_steps_add(bench_steps *all, uint32_t depth, uint32_t tokens, qsa_threads *pool, bool by_phase);

/* Layers of a block. */
uint32_t bench_steps_layers(const bench_item *item);

/* What a token that sees `visible` tokens needs at least, in one layer: */
double bench_scan_bytes(const qsa_config *c, uint64_t visible);     /* pooled keys; 0 while every group is selected */
double bench_row_bytes(const qsa_config *c, uint64_t visible);      /* K and V of the selected tokens */
double bench_row_operations(const qsa_config *c, uint64_t visible); /* floating point, of QK^T and PV */

#endif
