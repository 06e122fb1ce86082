/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "base/ggml_log.h"

#include <ggml.h>
#include <pthread.h>
#include <string.h>

enum { ERROR_BYTES = 256 };
static _Thread_local char first_error[ERROR_BYTES];

/* ggml reports from the inside out, so the first line names the cause. A line begins with a function's name. */
static void keep_first_error(enum ggml_log_level level, const char *line, void *user)
{
    (void)user;
    if (level != GGML_LOG_LEVEL_ERROR || first_error[0] != '\0')
        return;
    const char *colon = strstr(line, ": ");
    const char *start = colon ? colon + 2 : line;
    size_t length = strcspn(start, "\n");
    if (length >= ERROR_BYTES)
        length = ERROR_BYTES - 1;
    memcpy(first_error, start, length);
    first_error[length] = '\0';
}

static void install(void)
{
    ggml_log_set(keep_first_error, NULL);
}

void own_ggml_log(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

void clear_ggml_error(void)
{
    first_error[0] = '\0';
}

const char *ggml_error(void)
{
    return first_error;
}
