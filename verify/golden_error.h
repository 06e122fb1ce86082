/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_VERIFY_GOLDEN_ERROR_H
#define QSA_VERIFY_GOLDEN_ERROR_H

typedef struct golden_error {
    char text[256]; /* empty: no error */
} golden_error;

/* Sets the error, printf-like, unless one is set already. */
void golden_fail(golden_error *error, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif
