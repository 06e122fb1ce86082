/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/replay.h"

#include "console/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

char *replay_sibling(const golden_folder *folder, const char *file, const char *name, const char *suffix)
{
    const char *slash = strrchr(file, '/');
    const int below = slash ? (int)(slash - file + 1) : 0;
    const size_t size = strlen(folder->path) + (size_t)below + strlen(name) + strlen(suffix) + 2;
    char *path = memory_new(size, 1);
    snprintf(path, size, "%s/%.*s%s%s", folder->path, below, file, name, suffix);
    return path;
}

bool replay_readable(const golden_error *error, report *r)
{
    if (error->text[0])
        report_differ(r, "%s", error->text);
    return !error->text[0];
}

void replay_frequencies(const golden_record *header, const qsa_rotary *rotary, report *r)
{
    golden_error error = {{0}};
    const float *recorded = golden_floats(header, "inv_freq", rotary->pairs, &error);
    const double factor = golden_number(header, "attention_factor", 0, &error);
    if (!replay_readable(&error, r))
        return;
    report_bits(r, "frequencies, row", 0, recorded, rotary->inverse_frequency, rotary->pairs);
    report_same(r, fabs(factor - (double)rotary->attention_factor) <= 2.5e-7,
                "attention factor: expected %.9g, found %.9g", factor, (double)rotary->attention_factor);
}
