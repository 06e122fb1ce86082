/* SPDX-License-Identifier: Apache-2.0 */
/* setenv is POSIX, not C11. */
#define _POSIX_C_SOURCE 200809L

#include "model/library.h"

#include <ggml-cpu.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

/* Columns of x again and again, until there are enough. */
static void run_repeat(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)nth;
    (void)user;
    const struct ggml_tensor *x = out->src[0];
    for (int64_t column = 0; ith == 0 && column < out->ne[1]; column++) {
        memcpy((char *)out->data + (size_t)column * out->nb[1],
               (const char *)x->data + (size_t)(column % x->ne[1]) * x->nb[1], (size_t)x->ne[0] * sizeof(float));
    }
}

struct ggml_tensor *matrix_product(struct ggml_context *context, struct ggml_tensor *weights, struct ggml_tensor *x)
{
    if (x->ne[1] >= LEAST_COLUMNS) {
        return ggml_mul_mat(context, weights, x);
    }
    struct ggml_tensor *enough =
        ggml_custom_4d(context, GGML_TYPE_F32, x->ne[0], LEAST_COLUMNS, 1, 1, &x, 1, run_repeat, 1, NULL);
    struct ggml_tensor *product = ggml_mul_mat(context, weights, enough);
    return ggml_view_2d(context, product, product->ne[0], x->ne[1], product->nb[1], 0);
}
