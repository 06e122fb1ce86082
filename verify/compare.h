/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons that several checks share. */
#ifndef QSA_VERIFY_COMPARE_H
#define QSA_VERIFY_COMPARE_H

#include "console/report.h"
#include "verify/feed.h"
#include "verify/oracle_case.h"

/* Both runs selected the same groups and computed the same outputs from token `first` on; `way` describes
 * the second. */
void compare_results(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first);

/* The same, and both hold the same state. */
void compare_runs(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first);

/* The digest of the run's sequence; on an error 0, recorded as a difference. */
uint64_t digest_of(report *r, const feed_run *run);

/* oracle_case_open; records a refusal as a difference. */
bool open_oracle(report *r, oracle_case *out, const golden_case *c);

#endif
