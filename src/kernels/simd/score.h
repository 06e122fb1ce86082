/* SPDX-License-Identifier: Apache-2.0 */
/* Index scores (SPEC section 4) on vec. Lanes are groups: a tile of TILE groups, shared by as many rows of q (heads of
 * one query or of several) as fill the registers with accumulators. Groups are counted through the pages' tiles, as in
 * the output, so that a tile here may begin in one page and end in the next. */
#ifndef QSA_KERNELS_SIMD_SCORE_H
#define QSA_KERNELS_SIMD_SCORE_H

#include "kernels/contract.h"
#include "kernels/simd/prefetch.h"

/* While a set of four tiles is scored, the next set is prefetched, a quarter of its rows during each tile, 16 groups
 * wide streams side by side: so many streams are read faster than one, and eight, where registers are wide, faster than
 * four. */
enum {
    SCORE_STREAM_GROUPS = 16,
    SCORE_SET_TILES = 4,
    SCORE_STREAMS = SCORE_SET_TILES * TILE / SCORE_STREAM_GROUPS,
    SCORE_STEP_DIMS = 8, /* in which each stream advances by two rows */
};

/* The keys of a tile: dimension d of vector i at part[i] + d * stride elements. */
typedef struct score_keys {
    const void *part[VECTORS];
    size_t stride;
    const char *next[SCORE_STREAMS]; /* next[0] NULL: nothing is prefetched */
} score_keys;

/* Groups are numbered in 32 bits, whose divisions are faster too. */
static uint32_t score_total(const qsa_score_call *c)
{
    return c->n_tiles * c->groups;
}

/* Where LANES groups from `group` on begin, within their page; past the end the last LANES. */
QSA_INLINE const char *score_groups_at(const qsa_score_call *c, uint32_t group, enum qsa_element type)
{
    const uint32_t total = score_total(c), at = group < total ? group : total - LANES;
    return (const char *)c->tiles[at / c->groups] + qsa_row_bytes(type, at % c->groups);
}

/* The tile from `first` on in place, where groups per page are a multiple of LANES; and its quarter of the next set. */
QSA_INLINE score_keys score_keys_at(const qsa_score_call *c, uint32_t first, enum qsa_element type)
{
    score_keys k = {.stride = c->groups};
    for (uint32_t i = 0; i < VECTORS; i++)
        k.part[i] = score_groups_at(c, first + i * LANES, type);
    const uint32_t set = SCORE_SET_TILES * TILE, next = first / set * set + set;
    const size_t quarter = qsa_row_bytes(type, c->dim / SCORE_SET_TILES * c->groups);
    for (uint32_t i = 0; next < score_total(c) && i < SCORE_STREAMS; i++)
        k.next[i] = score_groups_at(c, next + i * SCORE_STREAM_GROUPS, type) + first % set / TILE * quarter;
    return k;
}

/* The same for any groups per page: copied to buffer [dim][TILE] as f32; lanes past the end are zero. */
static inline score_keys score_keys_gathered(const qsa_score_call *c, uint32_t first, enum qsa_element type,
                                             float *buffer)
{
    score_keys k = {.stride = TILE};
    for (size_t i = 0; i < VECTORS; i++)
        k.part[i] = buffer + i * LANES;
    memset(buffer, 0, (size_t)c->dim * TILE * sizeof *buffer);
    for (uint32_t lane = 0; lane < TILE && first + lane < score_total(c); lane++) {
        const void *keys = c->tiles[(first + lane) / c->groups];
        const uint32_t group = (first + lane) % c->groups;
        for (size_t d = 0; d < c->dim; d++)
            buffer[d * TILE + lane] = qsa_element_at(keys, d * c->groups + group, type);
    }
    return k;
}

/* The next two rows of a stream: one line, or two. */
QSA_INLINE void score_prefetch(const char *rows, size_t row_bytes)
{
    PREFETCH_L1(rows);
    if (row_bytes > LINE_BYTES / 2)
        PREFETCH_L1(rows + row_bytes);
}

/* One dimension of some rows of q. */
QSA_INLINE void score_add(const float *const *q, size_t row, uint32_t rows, size_t d, tile keys, tile *s)
{
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        s[r] = tile_fma(q[r / QSA_ADDRESSED_ROWS][r % QSA_ADDRESSED_ROWS * row + d], keys, s[r]);
}

/* q.k of `rows` rows of q, in the order of groups. */
QSA_INLINE void score_dots(const float *q, uint32_t rows, size_t dim, const score_keys *k, enum qsa_element type,
                           tile *out)
{
    const size_t row_bytes = qsa_row_bytes(type, (uint32_t)k->stride);
    const float *base[(MOST_ROWS + QSA_ADDRESSED_ROWS - 1) / QSA_ADDRESSED_ROWS];
    tile s[MOST_ROWS];
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r += QSA_ADDRESSED_ROWS)
        base[r / QSA_ADDRESSED_ROWS] = q + r * dim;
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        s[r] = tile_zero();
    size_t d = 0;
    if (k->next[0])
        for (size_t at = 0; d + SCORE_STEP_DIMS <= dim; at += 2 * row_bytes, d += SCORE_STEP_DIMS) {
            QSA_UNROLL
            for (size_t i = 0; i < SCORE_STEP_DIMS; i++) {
                if (i % (SCORE_STEP_DIMS / SCORE_STREAMS) == 0)
                    score_prefetch(k->next[i / (SCORE_STEP_DIMS / SCORE_STREAMS)] + at, row_bytes);
                score_add(base, dim, rows, d + i, tile_load_parts(k->part, (d + i) * k->stride, type), s);
            }
        }
    for (; d < dim; d++)
        score_add(base, dim, rows, d, tile_load_parts(k->part, d * k->stride, type), s);
    QSA_UNROLL
    for (uint32_t r = 0; r < rows; r++)
        out[r] = tile_in_order(s[r], type);
}

/* As many of the tile's scores as there are groups. */
QSA_INLINE void score_store(float *out, size_t count, tile score)
{
    QSA_UNROLL
    for (size_t i = 0; i < VECTORS; i++)
        if (i * LANES < count)
            vec_store_first(out + i * LANES, count - i * LANES, score.v[i]);
}

/* All queries over the tile from `first` on: later passes find the keys in L1. Keys go by reference: copying what was
 * just written in smaller pieces would stall. */
QSA_INLINE void score_tile(const qsa_score_call *c, uint32_t first, score_keys *k, enum qsa_element type)
{
    const size_t rows = (size_t)c->n_queries * c->heads, total = score_total(c);
    float *out = c->out + first;
    tile score = tile_zero();
    uint32_t head = 0;
    for (size_t begin = 0, count; begin < rows; begin += count) {
        tile dots[MOST_ROWS];
        count = rows_next(rows - begin);
        QSA_WITH_ROWS(count, score_dots(c->queries + begin * c->dim, constant_rows, c->dim, k, type, dots))
        k->next[0] = NULL; /* once is enough */
        for (size_t r = 0; r < count; r++) {
            for (int v = 0; v < VECTORS; v++) /* max may turn -0 into +0: adding either changes no score */
                score.v[v] = vec_add(score.v[v], vec_max(dots[r].v[v], vec_zero()));
            if (++head < c->heads)
                continue;
            score_store(out, total - first, score);
            out += total;
            score = tile_zero();
            head = 0;
        }
    }
}

/* Groups per page a multiple of LANES. */
QSA_INLINE void score_in_place(const qsa_score_call *c, enum qsa_element type)
{
    for (uint32_t first = 0; first < score_total(c); first += TILE) {
        score_keys k = score_keys_at(c, first, type);
        score_tile(c, first, &k, type);
    }
}

/* Any groups per page. */
static inline void score_gathered(const qsa_score_call *c, enum qsa_element type)
{
    float buffer[QSA_MAX_DIM * TILE];
    for (uint32_t first = 0; first < score_total(c); first += TILE) {
        score_keys k = score_keys_gathered(c, first, type, buffer);
        score_tile(c, first, &k, QSA_ELEMENT_F32);
    }
}

#endif
