/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_BENCH_LAYERS_H
#define QSA_BENCH_LAYERS_H

#include "bench/options.h"

/* Measures QSA layers of Qwen3.8-Flash-Next's shape and prints the figures. False after saying what is wrong. */
bool bench_run_layers(const bench_options *o);

#endif
