/* SPDX-License-Identifier: Apache-2.0 */
#include "console/text.h"

#include "console/memory.h"
#include "console/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_MIB = 1024 };

void text_add(text *t, const char *bytes, size_t n)
{
    if (n == 0)
        return;
    t->bytes = memory_grow(t->bytes, &t->capacity, t->n + n, 1);
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

bool text_add_file(text *t, const char *command, const char *path)
{
    char block[65536];
    const bool is_input = strcmp(path, "-") == 0;
    FILE *file = is_input ? stdin : fopen(path, "rb");
    if (!file) {
        options_say(command, "%s: %s", path, strerror(errno));
        return false;
    }
    for (size_t n; t->n >> 20 < MAX_MIB && (n = fread(block, 1, sizeof block, file)) > 0;)
        text_add(t, block, n);
    const bool is_too_long = t->n >> 20 >= MAX_MIB, is_read = !is_too_long && !ferror(file);
    if (is_too_long)
        options_say(command, "%s: more than %d MiB of text", path, MAX_MIB);
    else if (!is_read)
        options_say(command, "%s: %s", path, strerror(errno)); /* a directory opens, but cannot be read */
    if (!is_input)
        fclose(file);
    return is_read;
}
