/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program. A command that cannot get what it needs says so in one line and exits with 1. */
#ifndef QSA_CONSOLE_MEMORY_H
#define QSA_CONSOLE_MEMORY_H

#include <stddef.h>

/* Zeroed memory for count elements; free with free(). Never NULL. */
void *memory_new(size_t count, size_t element_size);

/* Grows an array so that it holds at least `wanted` elements; capacity counts elements. Never NULL. */
void *memory_grow(void *array, size_t *capacity, size_t wanted, size_t element_size);

/* Says that there is no memory, and ends the program. */
void memory_exhausted(void);

/* A copy of a string. */
char *memory_string(const char *text);

#endif
