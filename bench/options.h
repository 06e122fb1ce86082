/* SPDX-License-Identifier: Apache-2.0 */
/* What `qsa bench` is asked to measure. */
#ifndef QSA_BENCH_OPTIONS_H
#define QSA_BENCH_OPTIONS_H

#include <qsa/qsa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_MAX_DEPTHS = 16,
    BENCH_CHUNK = 256, /* tokens of a prefill step */
    BENCH_QUICK_SECONDS = 20
};

typedef struct bench_options {
    bool json;
    bool profile;                      /* with a model: the time of each of its parts */
    uint32_t threads;                  /* default 2 */
    uint32_t layers;                   /* QSA layers; default 12 */
    uint32_t seconds;                  /* about how long to measure, without filling the cache; default 150 */
    qsa_kv_type kv;                    /* default bf16 */
    uint32_t depths[BENCH_MAX_DEPTHS]; /* tokens in the cache before a measured step; ascending multiples of a page */
    size_t n_depths;
    const char *svg;    /* file of the chart; NULL: none */
    const char *model;  /* GGUF file; NULL: QSA layers alone */
    const char *device; /* name, for the output; NULL: the host */
} bench_options;

void bench_options_init(bench_options *out);

extern const char *const bench_kv_names[]; /* by qsa_kv_type; NULL ends */

/* The device's name, "host" without one. */
const char *bench_device_name(const bench_options *o);

#endif
