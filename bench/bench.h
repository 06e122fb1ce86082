/* SPDX-License-Identifier: Apache-2.0 */
/* qsa bench: its command line, and what it measures. */
#ifndef QSA_BENCH_BENCH_H
#define QSA_BENCH_BENCH_H

#include "bench/figures.h"

#include <qsa/qsa.h>

enum { BENCH_MAX_DEPTHS = 16, BENCH_CHUNK = 256 /* tokens of a step of a prompt */ };

typedef struct bench_request {
    bool json, profile, help;
    uint32_t threads, layers, seconds; /* seconds: about how long to measure, without making the history */
    qsa_kv_type kv;
    uint32_t depths[BENCH_MAX_DEPTHS]; /* ascending; multiples of a page */
    size_t n_depths;
    const char *svg;    /* NULL: no chart */
    const char *model;  /* NULL: layers alone */
    const char *device; /* NULL: the host */
} bench_request;

extern const char *const bench_kv_names[]; /* by qsa_kv_type; NULL ends */

/* For each of the depths, NAN where too few blocks were kept. Limits by the probes of the same blocks; NAN: not known.
 */
typedef struct bench_curves {
    double decode[BENCH_MAX_DEPTHS], decode_limit[BENCH_MAX_DEPTHS];   /* ms of a step */
    double prefill[BENCH_MAX_DEPTHS], prefill_limit[BENCH_MAX_DEPTHS]; /* us of a token */
} bench_curves;

/* QSA layers of the released shape; a model. False after saying what is wrong. */
bool bench_layers(const bench_request *r);
bool bench_model(const bench_request *r);

/* Calls of the cache's allocator in eight steps, after eight others, of one layer that has to select. */
bool bench_count_allocations(const bench_request *r, uint64_t *out_calls);

/* The library's status as true or false; says what is wrong. */
bool bench_good(qsa_status status);

/* Enough memory for that? Says what is wrong. */
bool bench_fits(uint64_t needed_bytes);

/* Bytes of this process in memory; 0: not known here. */
uint64_t bench_resident_bytes(void);

/* The chart of --svg. title says what was measured; which: "12 QSA layers". */
bool bench_draw(const bench_request *r, const char *isa, const char *which, const bench_curves *curves);

#endif
