/* SPDX-License-Identifier: Apache-2.0 */
/* Single operations, timed on one thread: the frame of bench_kernels and of further programs with a table of cases.
 * Times are of the processor, so that other processes disturb them least. */
#ifndef QSA_BENCH_CASES_H
#define QSA_BENCH_CASES_H

#include "bench/figures.h"

typedef struct bench_case {
    const char *name;  /* "qk_hot"; the figure is name_type_isa */
    const char *type;  /* of the elements: "bf16" */
    const char *isa;   /* instruction set: "avx2" */
    double bytes;      /* that a call has to read from memory; 0: none, they are in cache */
    double operations; /* floating point, two per multiply-add; 0: not compared with a peak */
    void (*run)(void *context);
    void (*before)(void *context); /* before each call, not timed; NULL: none */
    void *context;
} bench_case;

typedef struct bench_cases {
    bench_printer printer;
    probe probe;
    double read_rate, fma_rate; /* peaks of one thread; fma of printer.isa */
} bench_cases;

/* Measures the memory bandwidth and prints the head of the table. */
void bench_cases_open(bench_cases *cases, bool is_json, const char *title);
void bench_cases_close(bench_cases *cases);

/* Times one case, for about a fifth of a second, and prints it: median, min and max of its calls; share of peak: the
 * longer of reading the bytes and of the operations at the peak, / the median. */
void bench_cases_run(bench_cases *cases, const bench_case *one);

#endif
