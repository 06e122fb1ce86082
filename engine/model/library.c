/* SPDX-License-Identifier: Apache-2.0 */
/* setenv is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/library.h"

#include "base/ggml_log.h"

#include <ggml-cpu.h>
#include <pthread.h>
#include <stdlib.h>

static void init_once(void)
{
    setenv("GGML_CPU_TILED_MM", "0", 1);
    own_ggml_log();
    ggml_cpu_init();
}

void matrix_library_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}
