/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/golden_error.h"

#include <stdarg.h>
#include <stdio.h>

void golden_fail(golden_error *error, const char *format, ...)
{
    if (error->text[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}
