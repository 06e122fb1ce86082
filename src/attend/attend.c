/* SPDX-License-Identifier: Apache-2.0 */
/* QK^T, softmax and PV over addresses, by kernels. */
#include "attend/attend.h"

#include <assert.h>
#include <math.h>

uint32_t qsa_selected_limit(uint32_t ratio, uint32_t budget)
{
    return budget + ratio - 1;
}

uint32_t qsa_block_limit(uint32_t ratio, uint32_t budget)
{
    assert(ratio > 0 && budget % ratio == 0);
    uint32_t group = ratio < QSA_BLOCK_TOKENS ? ratio : QSA_BLOCK_TOKENS;
    return budget / group + (ratio + QSA_BLOCK_TOKENS - 1) / QSA_BLOCK_TOKENS;
}

size_t qsa_x_stride(uint32_t n_blocks)
{
    enum { LINE_FLOATS = 16 };
    const size_t lines = ((size_t)n_blocks * QSA_BLOCK_TOKENS + LINE_FLOATS - 1) / LINE_FLOATS;
    return (lines | 1) * LINE_FLOATS;
}

float qsa_query_scale(uint32_t head_dim)
{
    return (float)((1.0 / sqrt((double)head_dim)) * 0x1.71547652b82fep0);
}

/* Drops the scores of tokens that are not selected, before the softmax. */
static void squeeze(const qsa_addresses *selected, uint32_t heads, float *x, size_t stride)
{
    if (selected->compact)
        return;
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t j = 0; j < selected->n; j++)
            x[h * stride + j] = x[h * stride + selected->lanes[j]];
}

void qsa_attend_qk(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                   qsa_attend_scratch *scratch)
{
    const qsa_addresses *selected = &scratch->selected;
    assert(heads > 0 && heads <= QSA_HEADS_AT_ONCE && selected->n <= selected->n_blocks * QSA_BLOCK_TOKENS);
    const qsa_qk_call qk = {.q = scratch->q,
                            .heads = heads,
                            .dim = dim,
                            .blocks = selected->blocks,
                            .n_blocks = selected->n_blocks,
                            .out = scratch->x,
                            .out_stride = scratch->x_stride};
    kernels->qk(&qk, element);
    squeeze(selected, heads, scratch->x, scratch->x_stride);
}

void qsa_attend_softmax_pv(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t begin,
                           uint32_t end, qsa_attend_scratch *scratch, float *out, size_t out_stride)
{
    const qsa_addresses *selected = &scratch->selected;
    assert(heads > 0 && heads <= QSA_HEADS_AT_ONCE && begin < end && begin % QSA_CHUNK_DIMS == 0);
    const size_t skipped = qsa_row_bytes(element, begin);
    float sum[QSA_HEADS_AT_ONCE];
    const qsa_softmax_call softmax = {scratch->x, scratch->x_stride, heads, selected->n, sum};
    kernels->softmax(&softmax);
    const void **v = selected->v;
    if (skipped > 0) {
        v = scratch->v_from;
        for (uint32_t j = 0; j < selected->n; j++)
            v[j] = (const uint8_t *)selected->v[j] + skipped;
    }
    const qsa_pv_call pv = {.p = scratch->x,
                            .stride = scratch->x_stride,
                            .sum = sum,
                            .heads = heads,
                            .dim = end - begin,
                            .n = selected->n,
                            .v = v,
                            .out = out + begin,
                            .out_stride = out_stride};
    kernels->pv(&pv, element);
}

void qsa_attend_heads(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                      qsa_attend_scratch *scratch, float *out, size_t out_stride)
{
    qsa_attend_qk(kernels, element, heads, dim, scratch);
    qsa_attend_softmax_pv(kernels, element, heads, 0, dim, scratch, out, out_stride);
}
