/* SPDX-License-Identifier: Apache-2.0 */
/* Logical positions.
 *
 * A sequence is one run of consecutive positions [anchor, frontier), in tokens. Padding is outside a run; a missing
 * position inside it is a hole, and refused. A token has besides its position a rotary triple (t, h, w); grouping,
 * order and visibility use the position and never the triple. SPEC sections 1 and 2. */
#ifndef QSA_RUN_H
#define QSA_RUN_H

#include <qsa/status.h>

QSA_BEGIN_DECLS

/* Rotary position of a token: temporal, height, width. */
typedef struct qsa_triple {
    int32_t t, h, w;
} qsa_triple;

/* Half-open span of positions [begin, end). */
typedef struct qsa_span {
    int64_t begin, end;
} qsa_span;

/* What a list of positions amounts to. */
typedef struct qsa_run {
    size_t padding;   /* entries before the first token */
    size_t tokens;    /* tokens, all consecutive */
    int64_t anchor;   /* position of the first token; 0 if there is none */
    int64_t frontier; /* position after the last token; 0 if there is none */
} qsa_run;

/* Classifies the n positions of one sequence of an engine's padded batch: padding, one run, padding.
 * is_token [n]: 0 marks padding, whose position is not read; NULL: every entry is a token.
 * Errors: QSA_E_HOLE naming the first entry that breaks the run, expected and found (padding between tokens and
 * positions that repeat or go back are holes too); QSA_E_LIMIT (a position outside 0 .. 2^31-1). */
QSA_API qsa_status qsa_run_classify(const int64_t *positions, const uint8_t *is_token, size_t n, qsa_run *out_run);

/* What a query sees: its groups and its tail. */
typedef struct qsa_view {
    int64_t anchor;       /* first visible position; a window moves it by whole groups */
    uint64_t tokens;      /* visible tokens, including the query itself */
    uint64_t first_group; /* first candidate group, counted from the sequence's anchor */
    uint64_t groups;      /* candidate groups: the complete ones */
    uint32_t tail;        /* tokens after the last complete group */
    uint64_t attended;    /* ratio * min(budget / ratio, groups) + tail */
} qsa_view;

/* The view of the query at `position` in a run that begins at `anchor` (SPEC section 2). window: tokens, at least
 * ratio; 0: none. Errors: QSA_E_RANGE (position < anchor); QSA_E_ARGUMENT (ratio, budget or window); QSA_E_LIMIT (a
 * position outside 0 .. 2^31-1). */
QSA_API qsa_status qsa_run_view(int64_t anchor, int64_t position, uint32_t ratio, uint32_t budget, uint64_t window,
                                qsa_view *out_view);

QSA_END_DECLS
#endif
