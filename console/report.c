/* SPDX-License-Identifier: Apache-2.0 */
#include "console/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void differ(report *r, const char *format, va_list arguments)
{
    if (r->differences++ == 0)
        vsnprintf(r->first, sizeof r->first, format, arguments);
}

void report_differ(report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    differ(r, format, arguments);
    va_end(arguments);
}

void report_skip(report *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (r->skipped++ == 0)
        vsnprintf(r->skip, sizeof r->skip, format, arguments);
    va_end(arguments);
}

bool report_same(report *r, bool same, const char *format, ...)
{
    r->compared++;
    va_list arguments;
    va_start(arguments, format);
    if (!same)
        differ(r, format, arguments);
    va_end(arguments);
    return same;
}

bool report_call(report *r, qsa_status status, const char *what)
{
    if (status != QSA_OK)
        report_differ(r, "%s: %s: %s", what, qsa_status_name(status), qsa_error_detail());
    return status == QSA_OK;
}

bool report_numbers(report *r, const char *what, uint64_t where, const uint32_t *expected, size_t n_expected,
                    const uint32_t *found, size_t n_found)
{
    r->compared += n_expected;
    if (n_expected != n_found) {
        report_differ(r, "%s %" PRIu64 ": expected %zu numbers, found %zu", what, where, n_expected, n_found);
        return false;
    }
    for (size_t i = 0; i < n_expected; i++)
        if (expected[i] != found[i]) {
            report_differ(r, "%s %" PRIu64 ", number %zu: expected %" PRIu32 ", found %" PRIu32, what, where, i,
                          expected[i], found[i]);
            return false;
        }
    return true;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

bool report_bits(report *r, const char *what, uint64_t where, const float *expected, const float *found, size_t n)
{
    r->compared += n;
    if (memcmp(expected, found, n * sizeof *found) == 0)
        return true;
    size_t i = 0;
    while (bits_of(expected[i]) == bits_of(found[i]))
        i++;
    report_differ(r, "%s %" PRIu64 ", number %zu: expected bits %08" PRIx32 " (%g), found %08" PRIx32 " (%g)", what,
                  where, i, bits_of(expected[i]), (double)expected[i], bits_of(found[i]), (double)found[i]);
    return false;
}

bool report_close(report *r, const char *what, uint64_t where, const float *expected, const float *found, size_t n,
                  double tolerance)
{
    r->compared += n;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)expected[i] - (double)found[i]) <= tolerance)) { /* a NaN is far from everything */
            report_differ(r, "%s %" PRIu64 ", number %zu: expected %.9g, found %.9g, tolerance %g", what, where, i,
                          (double)expected[i], (double)found[i], tolerance);
            return false;
        }
    return true;
}

void report_add(report *total, const report *part)
{
    total->compared += part->compared;
    total->differences += part->differences;
    total->skipped += part->skipped;
    if (!total->first[0])
        memcpy(total->first, part->first, sizeof total->first);
    if (!total->skip[0])
        memcpy(total->skip, part->skip, sizeof total->skip);
}
