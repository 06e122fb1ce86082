/* SPDX-License-Identifier: Apache-2.0 */
/* JSON output: strings of any bytes, numbers of any value, one object per line. */
#include "console/json_line.h"

#include "console/memory.h"
#include "console/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits that say each number that a program prints, and no more. */
enum { DIGITS = 9 };

void json_line_set(json_t *object, const char *key, json_t *value)
{
    if (!value || json_object_set_new(object, key, value) != 0)
        memory_exhausted();
}

static void set_hex(json_t *object, const char *key, const char *text, size_t n)
{
    char *name = memory_new(strlen(key) + sizeof "_hex", 1), *hex = memory_new(2 * n + 1, 1);
    sprintf(name, "%s_hex", key);
    for (size_t i = 0; i < n; i++)
        sprintf(hex + 2 * i, "%02x", (unsigned char)text[i]);
    json_line_set(object, name, json_string(hex));
    free(name);
    free(hex);
}

void json_line_set_text(json_t *object, const char *key, const char *text)
{
    if (!text) {
        json_line_set(object, key, json_null());
        return;
    }
    const size_t n = strlen(text);
    size_t n_clean;
    char *clean = utf8_lossy(text, n, &n_clean);
    json_line_set(object, key, json_stringn(clean, n_clean));
    if (n_clean != n || memcmp(clean, text, n) != 0)
        set_hex(object, key, text, n);
    free(clean);
}

json_t *json_line_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void json_line_print(json_t *object)
{
    assert(json_is_object(object));
    (void)json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)); /* main asks ferror(stdout) */
    putchar('\n');
    json_decref(object);
}
