/* SPDX-License-Identifier: Apache-2.0 */
#include "random_product.h"

#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void random_bytes(random_source *random, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(random_next(random) >> 32);
}

static bool is_tame(qsa_format format, const uint8_t *block)
{
    enum { MOST_WEIGHTS = 256 };
    float row[MOST_WEIGHTS];
    const qsa_format_facts *facts = qsa_format_find(format);
    qsa_weights w = {format, 1, facts->block_weights, block, facts->block_bytes};
    qsa_weights_row(&w, 0, row);
    for (size_t i = 0; i < facts->block_weights; i++)
        if (!(fabsf(row[i]) < 64.0f))
            return false;
    return true;
}

void random_blocks(random_source *random, qsa_format format, uint8_t *out, size_t n)
{
    size_t bytes = qsa_format_find(format)->block_bytes;
    for (size_t b = 0; b < n; b++)
        do
            random_bytes(random, out + b * bytes, bytes);
        while (!is_tame(format, out + b * bytes));
}

/* Numbers with zeros, tiny ones, blocks of nothing and, if wild, what is not finite. */
static void random_columns(random_source *random, float *out, size_t n, bool wild)
{
    static const float odd[] = {0.0f, -0.0f, 1e-40f, 0x1p-100f, -0x1.fffffep-101f};
    static const float hostile[] = {INFINITY, -INFINITY, NAN, 3e38f};
    random_fill(random, out, n, 8);
    for (size_t i = 0; i < n; i++) {
        if (random_chance(random, 64))
            out[i] = odd[random_between(random, 0, 4)];
        if (wild && random_chance(random, 2048))
            out[i] = hostile[random_between(random, 0, 3)];
    }
    for (size_t b = 0; b + 32 <= n; b += 32) {
        bool clear = random_chance(random, 16), shrink = random_chance(random, 16);
        for (size_t i = b; i < b + 32; i++)
            out[i] = clear ? 0.0f : shrink ? out[i] * 1e-33f : out[i];
    }
}

/* Which columns each expert has: none, some or all. */
static void random_pairs(random_source *random, product_shape shape, random_product *out)
{
    out->first = test_alloc(shape.experts + 1, sizeof *out->first);
    out->column = test_alloc(shape.experts * shape.columns, sizeof *out->column);
    for (size_t e = 0; e < shape.experts; e++) {
        size_t one_in = random_between(random, 1, 4);
        bool nobody = random_chance(random, 4);
        for (uint32_t c = 0; c < shape.columns; c++)
            if (!nobody && random_chance(random, (unsigned)one_in))
                out->column[out->pairs++] = c;
        out->first[e + 1] = (uint32_t)out->pairs;
    }
}

void random_product_make(random_source *random, qsa_format format, product_shape shape, bool wild, random_product *out)
{
    *out = (random_product){.pairs = shape.columns};
    const qsa_format_facts *facts = qsa_format_find(format);
    size_t row_bytes = qsa_format_row_bytes(format, shape.inner), matrix_bytes = shape.rows * row_bytes;
    size_t matrices = shape.experts ? shape.experts : 1, bytes = matrices * matrix_bytes;
    out->weights = test_alloc(bytes + 1, 1);
    if (wild)
        random_bytes(random, out->weights + 1, bytes);
    else
        random_blocks(random, format, out->weights + 1, bytes / facts->block_bytes);

    size_t stride = shape.inner + random_between(random, 0, 3);
    out->values = test_alloc(shape.columns * stride, sizeof *out->values);
    random_columns(random, out->values, shape.columns * stride, wild);
    out->columns = (qsa_columns){shape.inner, shape.columns, out->values, stride, NULL};
    if (facts->quantises_columns)
        out->columns.blocks = aligned_alloc(64, qsa_columns_bytes(shape.inner, shape.columns));

    out->product = (qsa_product){
        .weights = {format, shape.rows, shape.inner, out->weights + 1, row_bytes},
        .columns = &out->columns,
        .y_stride = shape.rows + random_between(random, 0, 3),
    };
    if (shape.experts > 0) {
        out->pairs = 0;
        random_pairs(random, shape, out);
        out->product.experts = shape.experts;
        out->product.expert_bytes = matrix_bytes;
        out->product.first = out->first;
        out->product.column = out->column;
    }
    out->product.y = test_alloc(out->pairs * out->product.y_stride + 1, sizeof(float));
}

void random_product_free(random_product *p)
{
    free(p->weights);
    free(p->values);
    free(p->columns.blocks);
    free(p->first);
    free(p->column);
    free(p->product.y);
}

void same_products(const char *format, const char *what, const float *expected, const float *actual, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (test_bits(expected[i]) != test_bits(actual[i]) && !(isnan(expected[i]) && isnan(actual[i])))
            fail_msg("%s, %s: number %zu is %a, not %a", format, what, i, (double)actual[i], (double)expected[i]);
}
