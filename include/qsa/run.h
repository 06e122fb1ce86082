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

/* What a list of positions is. */
typedef struct qsa_run {
    size_t padding;   /* entries before the first token */
    size_t tokens;    /* tokens, all consecutive */
    int64_t anchor;   /* position of the first token; 0 if there is none */
    int64_t frontier; /* position after the last token; 0 if there is none */
} qsa_run;

/* Classifies a list of n positions as an engine's batch row holds them: padding, then one run, then padding.
 * is_token[i] 0 marks padding, whose position is not read; NULL: every entry is a token.
 * Errors: QSA_E_HOLE naming the first entry that breaks the run, expected and found (also for padding between tokens
 * and for positions that repeat or go back); QSA_E_LIMIT for a position below 0 or not below 2^31. */
QSA_API qsa_status qsa_run_classify(const int64_t *positions, const uint8_t *is_token, size_t n, qsa_run *out_run);

/* What a query sees: its groups and its tail. */
typedef struct qsa_view {
    int64_t anchor;       /* first visible position; with a window it moves by whole groups */
    uint64_t tokens;      /* visible tokens, the query itself included */
    uint64_t first_group; /* first candidate, counted from the sequence's own anchor */
    uint64_t groups;      /* candidates: complete groups */
    uint32_t tail;        /* tokens after the last complete group */
    uint64_t attended;    /* ratio * min(budget / ratio, groups) + tail */
} qsa_view;

/* The view of the query at `position` of a run that begins at `anchor` (SPEC section 2). window 0: none; otherwise at
 * least ratio tokens. Errors: QSA_E_RANGE if position < anchor; QSA_E_ARGUMENT for ratio, budget or window;
 * QSA_E_LIMIT for a position outside 0 .. 2^31-1. */
QSA_API qsa_status qsa_run_view(int64_t anchor, int64_t position, uint32_t ratio, uint32_t budget, uint64_t window,
                                qsa_view *out_view);

QSA_END_DECLS
#endif
