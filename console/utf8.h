/* SPDX-License-Identifier: Apache-2.0 */
/* Text that arrives in pieces: tokens may cut a character. */
#ifndef QSA_CONSOLE_UTF8_H
#define QSA_CONSOLE_UTF8_H

#include <stddef.h>

/* Length of the longest prefix that ends with a whole character; bytes that can belong to none count as whole. What is
 * left are at most three bytes of a character that may still be completed. */
size_t utf8_whole(const char *bytes, size_t n);

/* The text with every broken sequence replaced by U+FFFD, terminated; free with free(). */
char *utf8_lossy(const char *bytes, size_t n, size_t *out_n);

#endif
