/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's error detail: one line per thread, about its last failed engine call. */
#ifndef QSA_ENGINE_BASE_ERROR_H
#define QSA_ENGINE_BASE_ERROR_H

#include <qsa/status.h>

/* Keeps the formatted line (cut at 511 bytes, control characters replaced by '?') as the thread's detail and returns
 * status, so that a failing function can end with `return engine_fail(...)`. A line may quote the present detail. */
qsa_status engine_fail(qsa_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The detail of the thread's last engine_fail; "" if there was none. Static storage of the thread. */
const char *engine_error_detail(void);

#endif
