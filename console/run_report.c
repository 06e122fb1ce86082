/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a run. */
#define _POSIX_C_SOURCE 200809L /* isatty, fileno */
#include "console/run_report.h"

#include "console/engine_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_rate(const char *what, uint64_t tokens, double seconds)
{
    if (tokens > 0)
        fprintf(stderr, "%s    %" PRIu64 " tokens in %.2f s, %.1f tokens/s\n", what, tokens, seconds,
                seconds > 0 ? (double)tokens / seconds : 0);
}

static void print_files(const generation *g, const run_files *files)
{
    char size[32];
    struct stat about;
    if (files->load)
        fprintf(stderr, "loaded    %" PRIu64 " tokens in %.2f s\n", g->loaded, g->load_seconds);
    if (files->save && stat(files->save, &about) == 0)
        fprintf(stderr, "saved     %" PRIu64 " tokens in %.2f s, %s\n", qsa_session_tokens(g->session),
                files->save_seconds, engine_bytes((uint64_t)about.st_size, size));
}

static bool are_one_file(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

void run_report_print(const generation *g, const run_files *files)
{
    if (isatty(STDOUT_FILENO) || are_one_file(STDOUT_FILENO, STDERR_FILENO))
        fputc('\n', stderr); /* behind the generated text */
    if (g->interrupted && *g->interrupted)
        fputs("interrupted\n", stderr);
    else if (g->ending && g->ending[0])
        fprintf(stderr, "stopped: %s\n", g->ending);
    if (g->options->context.yarn_factor > 0)
        fprintf(stderr, "YaRN      factor %g, asked for by --yarn\n", (double)g->options->context.yarn_factor);
    print_files(g, files);
    print_rate("prompt", g->read, g->read_seconds);
    print_rate("decode", g->decoded, g->generate_seconds);
    engine_print_summary(g->context, &g->info);
}
