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

const char *engine_error_detail(void)
{
    return detail;
}
