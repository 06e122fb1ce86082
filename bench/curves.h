/* SPDX-License-Identifier: Apache-2.0 */
/* The chart of --svg: decode and prefill by depth. */
#ifndef QSA_BENCH_CURVES_H
#define QSA_BENCH_CURVES_H

#include "bench/options.h"

/* By depth; NAN: not measured, or no limit known. A limit is the time at the machine's peak. */
typedef struct bench_curves {
    double decode[BENCH_MAX_DEPTHS], decode_limit[BENCH_MAX_DEPTHS];   /* ms per token */
    double prefill[BENCH_MAX_DEPTHS], prefill_limit[BENCH_MAX_DEPTHS]; /* us per token */
} bench_curves;

/* Writes the chart to o->svg, if that is set. False after saying what is wrong. title: what was measured. */
bool bench_curves_draw(const bench_options *o, const char *isa, const char *title, const bench_curves *curves);

/* Whether o->svg can be written, if that is set; asked before minutes of measuring. False after saying what is wrong.
 */
bool bench_curves_writable(const bench_options *o);

#endif
