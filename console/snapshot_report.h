/* SPDX-License-Identifier: Apache-2.0 */
/* What `qsa snapshot` says of a file, on standard output. */
#ifndef QSA_CONSOLE_SNAPSHOT_REPORT_H
#define QSA_CONSOLE_SNAPSHOT_REPORT_H

#include <qsa/qsa.h>
#include <stdbool.h>

/* Shape, sequences and sections of the host, a line each. */
void snapshot_report_print(const char *path, const qsa_snapshot *s);

/* The same as one JSON object on one line. */
void snapshot_report_json(const char *path, const qsa_snapshot *s);

/* One line: the file is good, and what it holds. */
void snapshot_report_verdict(const char *path, const qsa_snapshot *s);

#endif
