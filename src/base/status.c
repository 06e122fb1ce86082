/* SPDX-License-Identifier: Apache-2.0 */
/* Status names and the calling thread's detail line. */
#include "base/status.h"

#include <qsa/qsa.h>
#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[512];

const char *qsa_status_name(qsa_status status)
{
    static const char *const names[QSA_STATUS_COUNT] = {
        [QSA_OK] = "QSA_OK",
        [QSA_E_ARGUMENT] = "QSA_E_ARGUMENT",
        [QSA_E_LIMIT] = "QSA_E_LIMIT",
        [QSA_E_MEMORY] = "QSA_E_MEMORY",
        [QSA_E_FULL] = "QSA_E_FULL",
        [QSA_E_HOLE] = "QSA_E_HOLE",
        [QSA_E_STORED] = "QSA_E_STORED",
        [QSA_E_RANGE] = "QSA_E_RANGE",
        [QSA_E_NONFINITE] = "QSA_E_NONFINITE",
        [QSA_E_SEQUENCE] = "QSA_E_SEQUENCE",
        [QSA_E_BUSY] = "QSA_E_BUSY",
        [QSA_E_ORDER] = "QSA_E_ORDER",
        [QSA_E_UNSUPPORTED] = "QSA_E_UNSUPPORTED",
        [QSA_E_FORMAT] = "QSA_E_FORMAT",
        [QSA_E_IO] = "QSA_E_IO",
        [QSA_E_DEVICE] = "QSA_E_DEVICE",
        [QSA_E_CANCELLED] = "QSA_E_CANCELLED",
    };
    if ((unsigned)status >= QSA_STATUS_COUNT)
        return "QSA_E_?";
    return names[status];
}

const char *qsa_error_detail(void)
{
    return detail;
}

qsa_status qsa_fail(qsa_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    return status;
}

void qsa_copy_detail(char *out, size_t size_bytes)
{
    snprintf(out, size_bytes, "%s", detail);
}

const char *qsa_version(void)
{
    return QSA_VERSION;
}
