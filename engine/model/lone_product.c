/* SPDX-License-Identifier: Apache-2.0 */
#include "model/lone_product.h"

#include "base/error.h"

#include <assert.h>
#include <ggml-cpu.h>
#include <stdlib.h>
#include <string.h>

/* A graph of one node and two leaves. */
enum { TENSORS = 3, GRAPH_SIZE = 4 };

typedef struct lone_graph {
    struct ggml_context *context; /* reset for each product */
    struct ggml_threadpool *pool; /* of one thread: the caller */
} lone_graph;

struct lone_products {
    int threads;
    lone_graph graphs[];
};

static size_t context_bytes(void)
{
    return TENSORS * ggml_tensor_overhead() + ggml_graph_overhead_custom(GRAPH_SIZE, false);
}

qsa_status lone_products_create(int threads, lone_products **out_products)
{
    lone_products *p = calloc(1, sizeof *p + (size_t)threads * sizeof p->graphs[0]);
    if (p == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for the products of %d threads", threads);
    p->threads = threads;
    const struct ggml_threadpool_params one = ggml_threadpool_params_default(1);
    for (int i = 0; i < threads; i++) {
        struct ggml_threadpool_params params = one;
        p->graphs[i].context = ggml_init((struct ggml_init_params){context_bytes(), NULL, true});
        p->graphs[i].pool = ggml_threadpool_new(&params);
        if (p->graphs[i].context == NULL || p->graphs[i].pool == NULL) {
            lone_products_destroy(p);
            return engine_fail(QSA_E_MEMORY, "no memory for the products of %d threads", threads);
        }
    }
    *out_products = p;
    return QSA_OK;
}

void lone_products_destroy(lone_products *products)
{
    if (products == NULL)
        return;
    for (int i = 0; i < products->threads; i++) {
        ggml_free(products->graphs[i].context);
        if (products->graphs[i].pool != NULL)
            ggml_threadpool_free(products->graphs[i].pool);
    }
    free(products);
}

size_t lone_products_bytes(const lone_products *products)
{
    return (size_t)products->threads * context_bytes();
}

enum ggml_type column_type(enum ggml_type matrix)
{
    return ggml_get_type_traits_cpu(matrix)->vec_dot_type;
}

void convert_column(enum ggml_type matrix, const float *x, void *out, int64_t n)
{
    const enum ggml_type type = column_type(matrix);
    if (type == GGML_TYPE_F32)
        memcpy(out, x, (size_t)n * sizeof *x);
    else
        ggml_get_type_traits_cpu(type)->from_float(x, out, n);
}

static struct ggml_tensor *leaf(struct ggml_context *c, enum ggml_type type, int64_t inner, int64_t n, const void *data)
{
    struct ggml_tensor *t = ggml_new_tensor_2d(c, type, inner, n);
    t->data = (void *)(uintptr_t)data; /* only read */
    return t;
}

bool lone_product_run(lone_products *products, int part, const lone_product *product)
{
    assert(part < products->threads);
    struct ggml_context *c = products->graphs[part].context;
    ggml_reset(c);
    struct ggml_tensor *y =
        ggml_mul_mat(c, leaf(c, product->type, product->inner, product->row_count, product->rows),
                     leaf(c, column_type(product->type), product->inner, product->column_count, product->columns));
    y->data = product->out;
    y->nb[1] = product->out_stride * sizeof(float);
    y->nb[2] = y->nb[3] = y->nb[1] * (size_t)product->column_count;
    struct ggml_cgraph *graph = ggml_new_graph_custom(c, GRAPH_SIZE, false);
    ggml_build_forward_expand(graph, y);
    struct ggml_cplan plan = ggml_graph_plan(graph, 1, products->graphs[part].pool);
    return plan.work_size == 0 && ggml_graph_compute(graph, &plan) == GGML_STATUS_SUCCESS;
}
