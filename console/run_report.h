/* SPDX-License-Identifier: Apache-2.0 */
/* What `qsa run` says at the end, on standard error. */
#ifndef QSA_CONSOLE_RUN_REPORT_H
#define QSA_CONSOLE_RUN_REPORT_H

#include "console/generation.h"

typedef struct run_files {
    const char *load, *save; /* NULL: none */
    double save_seconds;
} run_files;

/* Why the text ended, what was loaded and saved, rates, memory, the share of tokens attended to. */
void run_report_print(const generation *g, const run_files *files);

#endif
