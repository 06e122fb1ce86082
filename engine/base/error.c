/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_BYTES = 512 };

static _Thread_local char detail[DETAIL_BYTES];

/* A name from a hostile file stays on the line and cannot steer a terminal. */
static void make_one_line(char *line)
{
    for (; *line != '\0'; line++)
        if ((unsigned char)*line < 0x20 || *line == 0x7f)
            *line = '?';
}

qsa_status engine_fail(qsa_status status, const char *format, ...)
{
    /* Formatted aside first: the arguments may point into the old detail. */
    char line[DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    make_one_line(line);
    memcpy(detail, line, sizeof line);
    return status;
}

qsa_status engine_fail_as_library(qsa_status status)
{
    return engine_fail(status, "%s", qsa_error_detail());
}

qsa_status engine_check_size(const char *type, size_t found_bytes, size_t expected_bytes)
{
    if (found_bytes == expected_bytes)
        return QSA_OK;
    return engine_fail(QSA_E_ARGUMENT, "%s.size_bytes is %zu, expected %zu: call %s_init first", type, found_bytes,
                       expected_bytes, type);
}

const char *engine_error_detail(void)
{
    return detail;
}
