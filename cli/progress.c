/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 30 };

void progress_show(size_t fed, size_t n, double seconds)
{
    char bar[WIDTH + 1];
    if (!isatty(STDERR_FILENO))
        return;
    for (int i = 0; i < WIDTH; i++)
        bar[i] = (size_t)i * n < fed * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\rreading [%s] %zu of %zu tokens, %.0f tokens/s ", bar, fed, n,
            seconds > 0 ? (double)fed / seconds : 0);
    if (fed == n)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}
