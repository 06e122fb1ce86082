/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "base/ggml_log.h"

#include <ggml.h>
#include <pthread.h>

static void drop(enum ggml_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

static void install(void)
{
    ggml_log_set(drop, NULL);
}

void silence_ggml(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}
