/* SPDX-License-Identifier: Apache-2.0 */
#include "pass_fixture.h"

#include <stdlib.h>
#include <string.h>

static void place(pass *p, size_t tokens, size_t blocks_bytes, size_t scratch_bytes, carver *c)
{
    const size_t e = p->shape->embedding;
    p->residual = carve_floats(c, tokens * e * (p->shape->streams + (size_t)1));
    p->x = carve_floats(c, tokens * e);
    p->y = carve_floats(c, tokens * e);
    p->gains = carve_floats(c, tokens * (p->shape->streams + (size_t)1));
    p->blocks = carve(c, blocks_bytes, 1);
    p->scratch = carve(c, scratch_bytes, 1);
}

pass_fixture *pass_new(const model_shape *shape, layer_weights *layer, size_t tokens, size_t blocks_bytes,
                       size_t scratch_bytes)
{
    pass_fixture *f = test_alloc(1, sizeof *f);
    const char *wanted = NULL;
    f->weights.layers = layer;
    f->segment.tokens = (uint32_t)tokens;
    f->pass = (pass){.shape = shape,
                     .weights = &f->weights,
                     .ops = ops_choose(&wanted),
                     .products = qsa_products_choose(&wanted),
                     .layout = {&f->segment, 1},
                     .tokens = (uint32_t)tokens};
    carver c = {NULL, 0};
    place(&f->pass, tokens, blocks_bytes, scratch_bytes, &c);
    f->arrays = aligned_alloc(64, c.used);
    assert_non_null(f->arrays);
    memset(f->arrays, 0xff, c.used); /* NaN: nothing may be read that was not written */
    c = (carver){f->arrays, 0};
    place(&f->pass, tokens, blocks_bytes, scratch_bytes, &c);
    pass_threads(f, 1);
    return f;
}

void pass_threads(pass_fixture *f, uint32_t threads)
{
    worker_pool_destroy(f->pass.workers);
    assert_int_equal(worker_pool_create(threads, &f->pass.workers), QSA_OK);
}

void pass_free(pass_fixture *f)
{
    worker_pool_destroy(f->pass.workers);
    free(f->arrays);
    free(f);
}

qsa_weights matrix_new(enum ggml_type type, uint64_t stream, size_t inner, size_t rows, size_t count, float size)
{
    const size_t n = inner * rows * count, row_bytes = qsa_format_row_bytes((qsa_format)type, inner);
    float *values = test_alloc(n, sizeof *values);
    test_fill(stream, values, n);
    for (size_t i = 0; i < n; i++)
        values[i] *= size;
    void *data = test_alloc(rows * count, row_bytes);
    ggml_quantize_chunk(type, values, data, 0, (int64_t)(rows * count), (int64_t)inner, NULL);
    free(values);
    return (qsa_weights){(qsa_format)type, rows, inner, data, row_bytes};
}

void matrix_free(qsa_weights *matrix)
{
    free((void *)(uintptr_t)matrix->data);
    matrix->data = NULL;
}
