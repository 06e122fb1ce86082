/* SPDX-License-Identifier: Apache-2.0 */
#include "console/memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void memory_exhausted(void)
{
    fputs("qsa: out of memory\n", stderr);
    exit(EXIT_FAILURE);
}

void *memory_new(size_t count, size_t element_size)
{
    void *memory = calloc(count ? count : 1, element_size ? element_size : 1);
    if (!memory)
        memory_exhausted();
    return memory;
}

void *memory_grow(void *array, size_t *capacity, size_t wanted, size_t element_size)
{
    assert(element_size > 0);
    if (wanted <= *capacity)
        return array;
    size_t grown = *capacity < wanted / 2 ? wanted : 2 * *capacity;
    if (grown < 16)
        grown = 16;
    void *memory = grown > SIZE_MAX / element_size ? NULL : realloc(array, grown * element_size);
    if (!memory)
        memory_exhausted();
    *capacity = grown;
    return memory;
}

char *memory_string(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(memory_new(size, 1), text, size);
}
