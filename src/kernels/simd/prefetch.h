/* SPDX-License-Identifier: Apache-2.0 */
/* What PV prefetches: while it works on a block of V rows, the next block comes into L2, one slice of a row per token;
 * and of each row of this block, the next slice into L1. In one burst, lines would wait for each other and arithmetic
 * for them. Successive slices come from eight different rows, because eight streams are read faster than one (measured
 * for rows out of 131,072 tokens, as a share of peak: 0.39 in bursts, 0.59 row after row, 0.68 so). */
#ifndef QSA_KERNELS_SIMD_PREFETCH_H
#define QSA_KERNELS_SIMD_PREFETCH_H

#include "kernels/kernels.h"
#include "kernels/template.h"

#include <qsa/config.h>

/* A slice is 32 dimensions of a row. The block's slices are grouped into strides of PV_STEPS consecutive slices of a
 * row; PV_STREAMS of them are fetched while one column of slices of the block before is worked on, which takes as many
 * tokens as a block has. */
enum {
    PV_BLOCK = 64, /* tokens */
    PV_SLICE_DIMS = 32,
    PV_STREAMS = 8,
    PV_STEPS = PV_BLOCK / PV_STREAMS,
    PV_MOST_SLICES = QSA_MAX_DIM / PV_SLICE_DIMS, /* of a row */
    LINE_BYTES = 64
};

#define PREFETCH_L1(address) __builtin_prefetch((address), 0, 3)
#define PREFETCH_L2(address) __builtin_prefetch((address), 0, 2)

/* Addresses of streams: those of column i are next[i], next[i + slices], ... */
typedef struct pv_ahead {
    const char *const *next;
    size_t slices; /* of a row */
} pv_ahead;

/* The streams of one column, side by side: in memory, a loop reads them without a multiplication. */
typedef struct pv_streams {
    const char *at[PV_STREAMS];
} pv_streams;

/* 64 bytes of bf16. */
QSA_INLINE size_t pv_slice_bytes(enum qsa_element type)
{
    if (type == QSA_ELEMENT_F32)
        return PV_SLICE_DIMS * sizeof(float);
    return type == QSA_ELEMENT_Q8_0 ? QSA_V_CHUNK_BYTES : PV_SLICE_DIMS * sizeof(uint16_t);
}

QSA_INLINE pv_streams pv_streams_of(const pv_ahead *ahead, size_t column)
{
    pv_streams streams;
    QSA_UNROLL
    for (size_t i = 0; i < PV_STREAMS; i++)
        streams.at[i] = ahead->next[i * ahead->slices + column];
    return streams;
}

/* For token i of a block, whose row is at `row`. (Nested loops over steps and streams instead of % and / were 10 %
 * slower: the end of eight steps is mispredicted.) */
QSA_INLINE void pv_prefetch(const pv_streams *streams, size_t i, const char *row, enum qsa_element type)
{
    const size_t bytes = pv_slice_bytes(type);
    const char *next = streams->at[i % PV_STREAMS] + i / PV_STREAMS * bytes;
    PREFETCH_L1(row + bytes);
    if (type == QSA_ELEMENT_F32)
        PREFETCH_L1(row + bytes + LINE_BYTES);
    PREFETCH_L2(next);
    if (type == QSA_ELEMENT_F32)
        PREFETCH_L2(next + LINE_BYTES);
}

/* The streams of the block of rows from v[begin] on, before v[n]; past the last row come slices of the first. With
 * PV_STEPS slices a row, the released shape, a stream is a row, and the answer is the rows' own addresses; otherwise it
 * is written to buffer. */
static inline pv_ahead pv_ahead_of(const void *const *v, uint32_t n, uint32_t begin, uint32_t dim,
                                   enum qsa_element type, const char *buffer[PV_STREAMS * PV_MOST_SLICES])
{
    const uint32_t slices = dim / PV_SLICE_DIMS;
    if (slices == PV_STEPS && n - begin >= PV_BLOCK)
        return (pv_ahead){(const char *const *)(v + begin), slices};
    uint32_t row = begin, slice = 0;
    for (uint32_t i = 0; i < PV_STREAMS * slices; i++) {
        buffer[i] = (const char *)v[row < n ? row : 0] + slice * pv_slice_bytes(type);
        for (slice += PV_STEPS; slice >= slices; slice -= slices)
            row++;
    }
    return (pv_ahead){buffer, slices};
}

#endif
