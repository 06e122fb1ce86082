/* SPDX-License-Identifier: Apache-2.0 */
/* What several checks compare. */
#ifndef QSA_VERIFY_COMPARE_H
#define QSA_VERIFY_COMPARE_H

#include "console/report.h"
#include "verify/feed.h"
#include "verify/oracle_case.h"

/* Both runs selected the same groups and gave the same outputs from token `first` on; `way` names the second. */
void compare_results(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first);

/* And they hold the same state. */
void compare_runs(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first);

/* The digest of the run's sequence; 0 and a difference if there is none. */
uint64_t digest_of(report *r, const feed_run *run);

/* oracle_case_open; a refusal is a difference. */
bool open_oracle(report *r, oracle_case *out, const golden_case *c);

#endif
