/* SPDX-License-Identifier: Apache-2.0 */
/* PV (SPEC section 6, rule 4) on vec. Lanes are dimensions: a tile of TILE dimensions times some heads, as many as fill
 * the registers with accumulators. Tokens go in blocks whose V stays in L1 while all tiles and heads pass over it, and
 * the next block is prefetched; between blocks the chains wait in a buffer, exact there, in the lane order of
 * tile_load. */
#ifndef QSA_KERNELS_SIMD_PV_H
#define QSA_KERNELS_SIMD_PV_H

#include "kernels/contract.h"
#include "kernels/simd/prefetch.h"

/* Some heads, one tile of dimensions, one block of tokens. */
typedef struct pv_work {
    const qsa_pv_call *call;
    uint32_t head, heads; /* first, and how many */
    uint32_t dim;         /* first of the tile */
    uint32_t begin, end;  /* tokens */
    bool prefetches;
    pv_streams streams;
    float *waiting; /* [heads][TILE] chains of the blocks before */
} pv_work;

/* Resumes the chains, or starts them in the first block, continues them over the block and puts them back. */
QSA_INLINE void pv_tile_of(const pv_work *w, uint32_t heads, bool prefetches, enum qsa_element type)
{
    const qsa_pv_call *c = w->call;
    tile sums[MOST_ROWS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        sums[h] = w->begin ? tile_from_f32(w->waiting + h * TILE) : tile_zero();

    const size_t stride = c->stride, offset = qsa_row_bytes(type, w->dim), n = w->end - w->begin;
    const size_t in_chunk = type == QSA_ELEMENT_Q8_0 ? w->dim % QSA_CHUNK_DIMS : 0;
    const float *p[(MOST_ROWS + QSA_ADDRESSED_ROWS - 1) / QSA_ADDRESSED_ROWS];
    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h += QSA_ADDRESSED_ROWS)
        p[h / QSA_ADDRESSED_ROWS] = c->p + (w->head + h) * stride + w->begin;
    const void *const *rows = c->v + w->begin;
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)rows[i] + offset;
        const tile v = tile_load(row, in_chunk, type);
        if (prefetches)
            pv_prefetch(&w->streams, i, row, type);
        QSA_UNROLL
        for (uint32_t h = 0; h < heads; h++)
            sums[h] = tile_fma(p[h / QSA_ADDRESSED_ROWS][h % QSA_ADDRESSED_ROWS * stride + i], v, sums[h]);
    }

    QSA_UNROLL
    for (uint32_t h = 0; h < heads; h++)
        tile_to_f32(w->waiting + h * TILE, sums[h]);
}

static void pv_tile(const pv_work *w, enum qsa_element type)
{
    if (w->prefetches)
        QSA_WITH_ELEMENT(type, QSA_WITH_ROWS(w->heads, pv_tile_of(w, constant_rows, true, constant_type)))
    else
        QSA_WITH_ELEMENT(type, QSA_WITH_ROWS(w->heads, pv_tile_of(w, constant_rows, false, constant_type)))
}

/* Normalises the sums and writes them in the order of dimensions. */
static void pv_finish(const pv_work *w, enum qsa_element type)
{
    const qsa_pv_call *c = w->call;
    for (uint32_t h = 0; h < w->heads; h++) {
        const vec reciprocal = vec_set(1.0f / c->sum[w->head + h]);
        tile sum = tile_in_order(tile_from_f32(w->waiting + h * TILE), type);
        for (int v = 0; v < VECTORS; v++)
            sum.v[v] = vec_add(vec_mul(sum.v[v], reciprocal), vec_zero());
        tile_to_f32(c->out + (w->head + h) * c->out_stride + w->dim, sum);
    }
}

/* One tile and block of heads [first, end). The first of them prefetch a column of slices of the next block. */
static void pv_tile_heads(pv_work *w, uint32_t first, uint32_t end, const pv_ahead *ahead, enum qsa_element type)
{
    w->prefetches = w->dim % PV_SLICE_DIMS == 0 && w->dim + PV_SLICE_DIMS <= w->call->dim;
    if (w->prefetches)
        w->streams = pv_streams_of(ahead, w->dim / PV_SLICE_DIMS);
    for (w->head = first; w->head < end; w->head += w->heads) {
        w->heads = rows_next(end - w->head);
        pv_tile(w, type);
        if (w->end == w->call->n)
            pv_finish(w, type);
        w->waiting += w->heads * TILE;
        w->prefetches = false;
    }
}

/* Heads [first, end), at most QSA_HEADS_TOGETHER. Where dim is no multiple of TILE the last tile overlaps the one
 * before and computes some sums again, with the same result. */
static void pv_heads(const qsa_pv_call *c, uint32_t first, uint32_t end, enum qsa_element type)
{
    _Alignas(LINE_BYTES) float waiting[QSA_HEADS_TOGETHER * QSA_MAX_DIM];
    const char *buffer[PV_STREAMS * PV_MOST_SLICES];
    const uint32_t tiles = (c->dim + TILE - 1) / TILE;
    pv_work w = {.call = c};
    for (w.begin = 0; w.begin < c->n; w.begin = w.end) {
        w.end = c->n - w.begin < PV_BLOCK ? c->n : w.begin + PV_BLOCK;
        w.waiting = waiting;
        const pv_ahead ahead = pv_ahead_of(c->v, c->n, w.end, c->dim, type, buffer);
        for (uint32_t t = 0; t < tiles; t++) {
            w.dim = t + 1 < tiles ? t * TILE : c->dim - TILE;
            pv_tile_heads(&w, first, end, &ahead, type);
        }
    }
}

/* dim at least TILE. */
static inline void pv(const qsa_pv_call *c, enum qsa_element type)
{
    for (uint32_t first = 0, count; first < c->heads; first += count) {
        count = (uint32_t)qsa_even_rows(c->heads - first, QSA_HEADS_TOGETHER);
        pv_heads(c, first, first + count, type);
    }
}

#endif
