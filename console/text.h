/* SPDX-License-Identifier: Apache-2.0 */
/* A text put together from files and strings. */
#ifndef QSA_CONSOLE_TEXT_H
#define QSA_CONSOLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct text {
    char *bytes; /* NULL while n is 0; free with free() */
    size_t n, capacity;
} text;

void text_add(text *t, const char *bytes, size_t n);

/* Adds a file of at most 1 GiB: a source without an end, /dev/zero, must not take all memory. False after saying what
 * is wrong in the name of the command. */
bool text_add_file(text *t, const char *command, const char *path);

#endif
