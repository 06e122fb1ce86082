/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of a page, defined here and nowhere else.
 *
 * A page is QSA_PAGE_TOKENS token slots of one sequence (or of several that share it), for every layer, in three
 * arenas:
 *   KV      [kv_heads][blocks of 4 slots] of K [head_dim][4], V [4][head_dim]; every second block has V first
 *   raw     [slots][index_dim]
 *   pooled  [index_dim][groups]   one tile; lanes are groups
 * and, once for all layers, the rotary triples [slots]. Address = arena + layer * layer stride + page * page stride.
 *
 * K of four neighbouring tokens is a vector without a transpose. K and V of a block share 4 KiB in the released shape,
 * so reading K brings V near. Alternating their order spreads the selected K over all cache sets instead of half of
 * them (docs/adr/0008). */
#ifndef QSA_DEVICE_LAYOUT_H
#define QSA_DEVICE_LAYOUT_H

#include "kernels/kernels.h"

#include <assert.h>
#include <qsa/config.h>
#include <qsa/run.h>

enum qsa_arena { QSA_ARENA_KV = 0, QSA_ARENA_RAW, QSA_ARENA_POOLED, QSA_ARENA_COUNT };

typedef struct qsa_layout {
    qsa_config config;    /* norms and allocator NULL */
    uint32_t page_groups; /* QSA_PAGE_TOKENS / ratio */
    uint64_t pages;
    enum qsa_element kv_element, index_element;
    uint32_t index_bytes;            /* of one index element */
    uint32_t row_bytes, block_bytes; /* of one token's K or V of one kv head, and of K or V of four tokens */
    uint64_t page_stride[QSA_ARENA_COUNT];
    uint64_t layer_stride[QSA_ARENA_COUNT];
    uint64_t arena_bytes[QSA_ARENA_COUNT];
    uint64_t triple_bytes;
} qsa_layout;

/* Errors: QSA_E_LIMIT if the sizes overflow 2^63. config passed qsa_shape_check. */
qsa_status qsa_layout_init(const qsa_config *config, qsa_layout *out);

static inline size_t qsa_layout_page(const qsa_layout *layout, enum qsa_arena arena, uint32_t layer, uint32_t page)
{
    assert(layer < layout->config.layers && page < layout->pages);
    return (size_t)(layer * layout->layer_stride[arena] + page * layout->page_stride[arena]);
}

/* Offsets within a page, in bytes. The K and V blocks of a pair are its two halves. */
static inline size_t qsa_layout_pair(const qsa_layout *layout, uint32_t head, uint32_t slot)
{
    assert(head < layout->config.kv_heads && slot < QSA_PAGE_TOKENS);
    return (size_t)(head * (QSA_PAGE_TOKENS / QSA_BLOCK_TOKENS) + slot / QSA_BLOCK_TOKENS) * 2 * layout->block_bytes;
}

static inline bool qsa_layout_v_first(uint32_t slot)
{
    return slot / QSA_BLOCK_TOKENS % 2 == 1;
}

/* Of the K block that holds a slot. */
static inline size_t qsa_layout_k_block(const qsa_layout *layout, uint32_t head, uint32_t slot)
{
    return qsa_layout_pair(layout, head, slot) + (qsa_layout_v_first(slot) ? layout->block_bytes : 0);
}

/* Of a slot's V. */
static inline size_t qsa_layout_v_token(const qsa_layout *layout, uint32_t head, uint32_t slot)
{
    return qsa_layout_pair(layout, head, slot) + (qsa_layout_v_first(slot) ? 0 : layout->block_bytes) +
           (size_t)(slot % QSA_BLOCK_TOKENS) * layout->row_bytes;
}

/* Copies between one token's row (the form of V, and of snapshots) and its lane of a K block. */
void qsa_layout_block_put(const qsa_layout *layout, uint8_t *block, uint32_t lane, const uint8_t *row);
void qsa_layout_block_take(const qsa_layout *layout, const uint8_t *block, uint32_t lane, uint8_t *row);

/* The same for all four tokens of a block; their rows are row_bytes apart. */
void qsa_layout_block_fill(const qsa_layout *layout, uint8_t *block, const uint8_t *rows);
void qsa_layout_block_rows(const qsa_layout *layout, const uint8_t *block, uint8_t *rows);

/* Copies n elements of 1, 2 or 4 bytes, reading every from_stride-th and writing every to_stride-th element. */
void qsa_layout_move(uint32_t bytes, const uint8_t *from, size_t from_stride, uint8_t *to, size_t to_stride,
                     uint32_t n);

/* In elements. */
static inline size_t qsa_layout_raw_token(const qsa_layout *layout, uint32_t slot)
{
    assert(slot < QSA_PAGE_TOKENS);
    return (size_t)slot * layout->config.index_dim;
}

#endif
