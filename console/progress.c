/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include "console/progress.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 30 };

/* "\rreading [###...] " and returns true, or nothing and false. */
static bool show_bar(const char *what, uint64_t done, uint64_t all)
{
    assert(done <= all);
    char bar[WIDTH + 1];
    if (!isatty(STDERR_FILENO))
        return false;
    for (uint64_t i = 0; i < WIDTH; i++)
        bar[i] = i * all < done * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r%s [%s] ", what, bar);
    return true;
}

static void end_line(bool is_done)
{
    if (is_done)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

void progress_show(size_t fed, size_t n, double seconds)
{
    if (!show_bar("reading", fed, n))
        return;
    fprintf(stderr, "%zu of %zu tokens, %.0f tokens/s ", fed, n, seconds > 0 ? (double)fed / seconds : 0);
    end_line(fed == n);
}

void progress_show_bytes(uint64_t written, uint64_t bytes, double seconds)
{
    if (!show_bar("writing", written, bytes))
        return;
    fprintf(stderr, "%.1f of %.1f GB, %.0f MB/s ", (double)written / 1e9, (double)bytes / 1e9,
            seconds > 0 ? (double)written / seconds / 1e6 : 0);
    end_line(written == bytes);
}
