/* SPDX-License-Identifier: Apache-2.0 */
/* What p.v fetches while it works on a block of V rows: the block after it, a share of a row per token. Asked for in
 * one burst, lines would wait for each other, and the arithmetic for them; and neighbours in time lie in eight
 * different rows, because so many streams are read faster than one (measured, of the peak, for rows out of 131,072
 * tokens: 0.39 in bursts, 0.59 row after row, 0.68 so). */
#ifndef QSA_KERNELS_X86_AHEAD_H
#define QSA_KERNELS_X86_AHEAD_H

#include "kernels/x86/avx2.h"

/* A block of rows is fetched in columns of 32 dimensions, one while each column of the block before is worked on, which
 * takes as many steps as a block has rows. A column fetches PIECES pieces, a share of each in turn. */
enum {
    QSA_AHEAD_ROWS = 64,
    QSA_AHEAD_DIMS = 32,
    QSA_AHEAD_PIECES = 8,
    QSA_AHEAD_SHARES = QSA_AHEAD_ROWS / QSA_AHEAD_PIECES, /* of a piece */
    QSA_AHEAD_MOST = 32,                                  /* columns */
    QSA_AHEAD_LINE_BYTES = 64
};

/* Pieces of one column: the addresses next[0], next[columns], ... */
typedef struct qsa_ahead {
    const char *const *next;
    size_t columns;
} qsa_ahead;

/* A column's share of a row: 64 bytes of bf16. */
QSA_INLINE size_t qsa_ahead_share_bytes(enum qsa_element type)
{
    if (type == QSA_ELEMENT_F32)
        return QSA_AHEAD_DIMS * sizeof(float);
    return type == QSA_ELEMENT_Q8_0 ? QSA_V_CHUNK_BYTES : QSA_AHEAD_DIMS * sizeof(uint16_t);
}

/* A share's line, or two of f32. */
#define QSA_AHEAD_FETCH(share, type, hint)                                                                             \
    do {                                                                                                               \
        _mm_prefetch((share), hint);                                                                                   \
        if ((type) == QSA_ELEMENT_F32)                                                                                 \
            _mm_prefetch((share) + QSA_AHEAD_LINE_BYTES, hint);                                                        \
    } while (0)

/* What one column fetches, side by side: in memory a loop reads it without a multiplication. */
typedef struct qsa_ahead_column {
    const char *piece[QSA_AHEAD_PIECES];
} qsa_ahead_column;

QSA_INLINE qsa_ahead_column qsa_ahead_pieces(const qsa_ahead *ahead)
{
    qsa_ahead_column column;
    QSA_UNROLL
    for (size_t i = 0; i < QSA_AHEAD_PIECES; i++)
        column.piece[i] = ahead->next[i * ahead->columns];
    return column;
}

/* Step i of a column, whose row of V lies at `row`: a share of the next block into the second cache, and of this row
 * the next column into the first. (A loop over shares in a loop over pieces instead of % and / was 10 % slower: the
 * processor does not foresee the end of eight steps.) */
QSA_INLINE void qsa_ahead_fetch(const qsa_ahead_column *column, size_t i, const char *row, enum qsa_element type)
{
    const size_t share_bytes = qsa_ahead_share_bytes(type);
    QSA_AHEAD_FETCH(row + share_bytes, type, _MM_HINT_T0);
    QSA_AHEAD_FETCH(column->piece[i % QSA_AHEAD_PIECES] + i / QSA_AHEAD_PIECES * share_bytes, type, _MM_HINT_T1);
}

/* The first column for the rows v[begin] .. before v[n]; the others begin one address after the other. A row has as
 * many shares as there are columns, dim / 32, at most QSA_AHEAD_MOST; past the last row comes one that is in cache.
 * With QSA_AHEAD_SHARES columns, the released shape, a piece is a row, and the rows' own addresses are the answer;
 * otherwise it is written to buffer. */
static inline qsa_ahead qsa_ahead_of(const void *const *v, uint32_t n, uint32_t begin, uint32_t dim,
                                     enum qsa_element type, const char *buffer[QSA_AHEAD_PIECES * QSA_AHEAD_MOST])
{
    const uint32_t columns = dim / QSA_AHEAD_DIMS;
    if (columns == QSA_AHEAD_SHARES && n - begin >= QSA_AHEAD_ROWS)
        return (qsa_ahead){(const char *const *)(v + begin), columns};
    uint32_t row = begin, share = 0;
    for (uint32_t i = 0; i < QSA_AHEAD_PIECES * columns; i++) {
        buffer[i] = (const char *)v[row < n ? row : 0] + share * qsa_ahead_share_bytes(type);
        for (share += QSA_AHEAD_SHARES; share >= columns; share -= columns)
            row++;
    }
    return (qsa_ahead){buffer, columns};
}

#endif
