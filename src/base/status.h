/* SPDX-License-Identifier: Apache-2.0 */
/* Returning a status with a detail line; checked arithmetic. */
#ifndef QSA_BASE_STATUS_H
#define QSA_BASE_STATUS_H

#include <qsa/status.h>
#include <stdbool.h>

#if defined(__GNUC__)
#define QSA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define QSA_PRINTF(text, first)
#endif

/* Stores the detail line of the calling thread and returns status. */
qsa_status qsa_fail(qsa_status status, const char *format, ...) QSA_PRINTF(2, 3);

/* Copies the detail line, to make it part of another one. */
void qsa_copy_detail(char *out, size_t size_bytes);

#define QSA_TRY(call)                                                                                                  \
    do {                                                                                                               \
        qsa_status qsa_try_status = (call);                                                                            \
        if (qsa_try_status != QSA_OK)                                                                                  \
            return qsa_try_status;                                                                                     \
    } while (0)

/* a * b and a + b; false on overflow. */
static inline bool qsa_multiply(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool qsa_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
