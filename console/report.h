/* SPDX-License-Identifier: Apache-2.0 */
/* What a check has compared, and the first difference it met. */
#ifndef QSA_CONSOLE_REPORT_H
#define QSA_CONSOLE_REPORT_H

#include <qsa/qsa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct report {
    uint64_t compared;    /* values */
    uint64_t differences; /* of them; a call that failed counts as one */
    uint64_t skipped;     /* cases that this program cannot replay */
    char first[240];      /* the first difference, in words; empty: none */
    char skip[120];       /* why the first case was skipped */
} report;

#if defined(__GNUC__)
#define REPORT_FORMAT(first) __attribute__((format(printf, first, (first) + 1)))
#else
#define REPORT_FORMAT(first)
#endif

/* Counts a difference; the first is kept. */
void report_differ(report *r, const char *format, ...) REPORT_FORMAT(2);
void report_skip(report *r, const char *format, ...) REPORT_FORMAT(2);

/* Counts one comparison; false is a difference. Returns same. */
bool report_same(report *r, bool same, const char *format, ...) REPORT_FORMAT(3);

/* Counts a difference unless the call was good. Returns whether it was. */
bool report_call(report *r, qsa_status status, const char *what);

/* Count n comparisons each; one array that differs is one difference. `what` and `where` name it: "output of token" 7.
 */
bool report_numbers(report *r, const char *what, uint64_t where, const uint32_t *expected, size_t n_expected,
                    const uint32_t *found, size_t n_found);
bool report_bits(report *r, const char *what, uint64_t where, const float *expected, const float *found, size_t n);
/* As report_bits, within an absolute tolerance. */
bool report_close(report *r, const char *what, uint64_t where, const float *expected, const float *found, size_t n,
                  double tolerance);

/* Adds the counts of a part; keeps the first difference and skip. */
void report_add(report *total, const report *part);

#endif
