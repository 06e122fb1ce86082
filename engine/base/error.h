/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's error detail: one line per thread, about its last failed engine call. */
#ifndef QSA_ENGINE_BASE_ERROR_H
#define QSA_ENGINE_BASE_ERROR_H

#include <qsa/status.h>

/* Keeps the formatted line (cut at 511 bytes, control characters replaced by '?') as the thread's detail and returns
 * status, so that a failing function can end with `return engine_fail(...)`. A line may quote the present detail. */
qsa_status engine_fail(qsa_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fails with libqsa's status and its detail line. */
qsa_status engine_fail_as_library(qsa_status status);

/* Returns from the calling function when the call fails: an engine function, whose detail is there already. */
#define ENGINE_TRY(call)                                                                                               \
    do {                                                                                                               \
        const qsa_status engine_try_status = (call);                                                                   \
        if (engine_try_status != QSA_OK)                                                                               \
            return engine_try_status;                                                                                  \
    } while (0)

/* The same for a function of libqsa, whose detail becomes the engine's. */
#define ENGINE_TRY_LIBRARY(call)                                                                                       \
    do {                                                                                                               \
        const qsa_status engine_try_status = (call);                                                                   \
        if (engine_try_status != QSA_OK)                                                                               \
            return engine_fail_as_library(engine_try_status);                                                          \
    } while (0)

/* An option struct begins with size_bytes: QSA_E_ARGUMENT, naming the struct's _init, if it was not initialised or
 * comes from another version of the header. */
qsa_status engine_check_size(const char *type, size_t found_bytes, size_t expected_bytes);

/* The detail of the thread's last engine_fail; "" if there was none. Static storage of the thread. */
const char *engine_error_detail(void);

#endif
