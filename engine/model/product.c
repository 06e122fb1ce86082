/* SPDX-License-Identifier: Apache-2.0 */
#include "model/product.h"

#include <assert.h>

bool quantises(const qsa_weights *weights)
{
    return weights->data != NULL && qsa_format_find(weights->format)->quantises_columns;
}

size_t product_blocks_bytes(const qsa_weights *weights, size_t count)
{
    return quantises(weights) ? qsa_columns_bytes(weights->inner, count) : 0;
}

static void task_quantise(const void *context, const void *operation, size_t begin, size_t end)
{
    ((const pass *)context)->products->quantise(operation, begin, end);
}

void task_multiply(const void *context, const void *operation, size_t begin, size_t end)
{
    ((const pass *)context)->products->multiply(operation, begin, end);
}

qsa_columns columns_of(pass *p, const float *x, size_t inner, size_t count, bool is_quantised)
{
    const qsa_columns columns = {inner, count, x, inner, is_quantised ? p->blocks : NULL};
    if (is_quantised)
        run_task(p, task_quantise, &columns, count, rows_grain(inner));
    return columns;
}

typedef struct scaling {
    float factor, *y;
    size_t rows, stride;
} scaling;

/* Unit: a column. */
static void task_scale(const void *context, const void *operation, size_t begin, size_t end)
{
    const scaling *s = operation;
    (void)context;
    for (size_t column = begin; column < end; column++)
        for (size_t row = 0; row < s->rows; row++)
            s->y[column * s->stride + row] *= s->factor;
}

void apply_scale(const pass *p, const void *data, size_t expert, float *y, size_t count, size_t rows, size_t stride)
{
    const weight_scale *scale = model_weights_scale(p->weights, data);
    if (scale == NULL)
        return;
    const scaling s = {scale->values[scale->n > 1 ? expert : 0], y, rows, stride};
    run_task(p, task_scale, &s, count, rows_grain(rows));
}

void multiply(pass *p, const float *x, size_t count, const product *list, size_t n)
{
    assert(n <= PRODUCTS_AT_ONCE);
    bool is_quantised = false;
    for (size_t i = 0; i < n; i++)
        is_quantised = is_quantised || quantises(list[i].weights);
    const qsa_columns columns = columns_of(p, x, list[0].weights->inner, count, is_quantised);
    qsa_product products[PRODUCTS_AT_ONCE];
    task tasks[PRODUCTS_AT_ONCE] = {{0}};
    for (size_t i = 0; i < n; i++) {
        const size_t stride = list[i].y_stride != 0 ? list[i].y_stride : list[i].weights->rows;
        products[i] =
            (qsa_product){.weights = *list[i].weights, .columns = &columns, .y = list[i].y, .y_stride = stride};
        tasks[i] = (task){task_multiply, &products[i], qsa_product_tiles(&products[i]), 1};
    }
    worker_pool_run(p->workers, p, tasks, n);
    for (size_t i = 0; i < n; i++)
        apply_scale(p, list[i].weights->data, 0, products[i].y, count, list[i].weights->rows, products[i].y_stride);
}
