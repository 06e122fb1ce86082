/* SPDX-License-Identifier: Apache-2.0 */
#include "attend/attend.h"

#include <math.h>

uint32_t qsa_row_limit(const qsa_layout *layout, uint32_t budget)
{
    return budget + layout->ratio - 1;
}

uint32_t qsa_block_limit(const qsa_layout *layout, uint32_t budget)
{
    uint32_t group = layout->ratio < QSA_BLOCK_TOKENS ? layout->ratio : QSA_BLOCK_TOKENS;
    return budget / group + (layout->ratio + QSA_BLOCK_TOKENS - 1) / QSA_BLOCK_TOKENS;
}

float qsa_query_scale(uint32_t head_dim)
{
    return (float)((1.0 / sqrt((double)head_dim)) * 0x1.71547652b82fep0);
}

/* Appends `count` tokens that lie in consecutive slots of one page. */
static void add_tokens(const qsa_layout *layout, const uint8_t *k_page, const uint8_t *v_page, uint32_t kv_head,
                       uint32_t slot, uint32_t count, qsa_row_view *row)
{
    for (uint32_t s = slot; s < slot + count; s++) {
        const void *block = k_page + qsa_layout_k_block(layout, kv_head, s);
        if (row->n_blocks == 0 || row->blocks[row->n_blocks - 1] != block)
            row->blocks[row->n_blocks++] = block;
        uint32_t lane = (row->n_blocks - 1) * QSA_BLOCK_TOKENS + s % QSA_BLOCK_TOKENS;
        row->compact = row->compact && lane == row->n;
        row->lanes[row->n] = lane;
        row->v[row->n++] = v_page + qsa_layout_v_token(layout, kv_head, s);
    }
}

void qsa_row_gather(const qsa_cache *cache, const qsa_sequence *sequence, uint32_t layer, uint32_t kv_head,
                    const uint32_t *groups, uint32_t n_groups, uint64_t tail, uint32_t n_tail, qsa_row_view *row)
{
    const qsa_layout *layout = &cache->layout;
    const uint8_t *k = cache->arena[QSA_ARENA_K] + qsa_layout_page(layout, QSA_ARENA_K, layer, 0);
    const uint8_t *v = cache->arena[QSA_ARENA_V] + qsa_layout_page(layout, QSA_ARENA_V, layer, 0);
    const size_t stride = (size_t)layout->page_stride[QSA_ARENA_K]; /* V's is the same */
    row->n = row->n_blocks = 0;
    row->compact = true;
    for (uint32_t i = 0; i < n_groups; i++) {
        qsa_place place = qsa_sequence_place(sequence, (uint64_t)groups[i] * layout->ratio);
        add_tokens(layout, k + place.page * stride, v + place.page * stride, kv_head, place.slot, layout->ratio, row);
    }
    if (n_tail > 0) {
        qsa_place place = qsa_sequence_place(sequence, tail);
        add_tokens(layout, k + place.page * stride, v + place.page * stride, kv_head, place.slot, n_tail, row);
    }
}

/* Lanes that are not in the row are squeezed out before anything looks at them. */
static void squeeze(const qsa_row_view *row, uint32_t heads, float *x, size_t stride)
{
    if (row->compact)
        return;
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t j = 0; j < row->n; j++)
            x[h * stride + j] = x[h * stride + row->lanes[j]];
}

void qsa_attend_heads(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                      qsa_attend_scratch *scratch, float *out, size_t out_stride)
{
    const qsa_row_view *row = &scratch->row;
    float sum[QSA_HEADS_AT_ONCE];
    kernels->dots[element](scratch->q, heads, dim, row->blocks, row->n_blocks, scratch->x, scratch->x_stride);
    squeeze(row, heads, scratch->x, scratch->x_stride);
    kernels->weights(scratch->x, scratch->x_stride, heads, row->n, sum);
    kernels->accumulate[element](scratch->x, scratch->x_stride, heads, row->v, row->n, dim, sum, out, out_stride);
}
