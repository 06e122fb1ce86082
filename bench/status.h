/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_BENCH_STATUS_H
#define QSA_BENCH_STATUS_H

#include <qsa/qsa.h>
#include <stdbool.h>

/* Whether a call of libqsa was good. False after saying what is wrong. */
bool bench_ok(qsa_status status);

#endif
