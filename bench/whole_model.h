/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_BENCH_WHOLE_MODEL_H
#define QSA_BENCH_WHOLE_MODEL_H

#include "bench/options.h"

/* Measures the model o->model by depth, through the engine, and prints the figures. False after saying what is wrong.
 */
bool bench_run_model(const bench_options *o);

#endif
