/* SPDX-License-Identifier: Apache-2.0 */
/* setenv is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/library.h"

#include <ggml-cpu.h>
#include <pthread.h>
#include <stdlib.h>

/* ggml's blocked product gives a column the same bits in every batch from this many columns on; with fewer it uses
 * another kernel. Measured for f32, bf16, f16 and every quantised type, 2 to 512 columns, 1 to 3 threads. */
#if defined(__ARM_NEON)
enum { LEAST_COLUMNS = 4 };
#else
enum { LEAST_COLUMNS = 2 };
#endif

static void discard_log(enum ggml_log_level level, const char *text, void *user)
{
    (void)level;
    (void)text;
    (void)user;
}

static void init_once(void)
{
    setenv("GGML_CPU_TILED_MM", "0", 1);
    ggml_log_set(discard_log, NULL);
    ggml_cpu_init();
}

void matrix_library_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}

struct ggml_tensor *matrix_product(struct ggml_context *context, struct ggml_tensor *weights, struct ggml_tensor *x)
{
    const int64_t tokens = x->ne[1];
    struct ggml_tensor *padded = x;
    while (padded->ne[1] < LEAST_COLUMNS) {
        padded = ggml_concat(context, padded, padded, 1);
    }
    struct ggml_tensor *product = ggml_mul_mat(context, weights, padded);
    return padded == x ? product : ggml_view_2d(context, product, product->ne[0], tokens, product->nb[1], 0);
}
