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

void multiply(pass *p, const float *x, size_t count, const product *list, size_t n)
{
    assert(n <= PRODUCTS_AT_ONCE);
    bool is_quantised = false;
    for (size_t i = 0; i < n; i++)
        is_quantised = is_quantised || quantises(list[i].weights);
    const qsa_columns columns = columns_of(p, x, list[0].weights->inner, count, is_quantised);
    qsa_product products[PRODUCTS_AT_ONCE];
    task tasks[PRODUCTS_AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        const size_t stride = list[i].y_stride != 0 ? list[i].y_stride : list[i].weights->rows;
        products[i] =
            (qsa_product){.weights = *list[i].weights, .columns = &columns, .y = list[i].y, .y_stride = stride};
        tasks[i] = (task){task_multiply, &products[i], qsa_product_tiles(&products[i]), 1};
    }
    worker_pool_run(p->workers, p, tasks, n);
}
