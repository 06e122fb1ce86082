/* SPDX-License-Identifier: Apache-2.0 */
#include "model/state.h"

#include "ops/ops.h"

static size_t conv_floats(const model_shape *s, uint32_t layer)
{
    return s->kinds[layer] == LAYER_DELTA_NET ? (size_t)(s->delta.conv - 1) * s->delta.channels : 0;
}

static size_t matrix_floats(const model_shape *s, uint32_t layer)
{
    return s->kinds[layer] == LAYER_DELTA_NET
               ? s->delta.value_heads * ops_state_blocks(s->delta.dim) * OPS_STATE_COLUMNS * s->delta.dim
               : 0;
}

static size_t ngram_floats(const model_shape *s, uint32_t layer)
{
    return s->has_ngram[layer] ? (size_t)(s->ngram.conv - 1) * s->ngram.size * s->streams * s->embedding : 0;
}

size_t state_conv_offset(const model_shape *shape, uint32_t layer)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < layer; i++)
        offset += conv_floats(shape, i) + matrix_floats(shape, i) + ngram_floats(shape, i);
    return offset;
}

size_t state_matrix_offset(const model_shape *shape, uint32_t layer)
{
    return state_conv_offset(shape, layer) + conv_floats(shape, layer);
}

size_t state_ngram_offset(const model_shape *shape, uint32_t layer)
{
    return state_matrix_offset(shape, layer) + matrix_floats(shape, layer);
}

size_t state_floats(const model_shape *shape)
{
    return state_conv_offset(shape, shape->layers);
}
