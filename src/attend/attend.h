/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over a row: where its tokens lie, then two passes with the exact maximum (SPEC sections 5 and 6). */
#ifndef QSA_ATTEND_ATTEND_H
#define QSA_ATTEND_ATTEND_H

#include "kernels/kernels.h"

/* Query heads that go through a row together: they share the loads of K and V. */
enum { QSA_HEADS_AT_ONCE = 16 };

/* A row of one kv head, as addresses, in order of position. */
typedef struct qsa_row_view {
    const void **blocks; /* K blocks [n_blocks] that hold at least one token of the row */
    const void **v;      /* V rows [n] */
    uint32_t *lanes;     /* [n] place of token j among the blocks' lanes, 4 * block + lane, ascending */
    uint32_t n_blocks, n;
    bool compact; /* lanes[j] == j for all j */
} qsa_row_view;

/* Working memory of one part. */
typedef struct qsa_attend_scratch {
    qsa_row_view row;
    float *q; /* [QSA_HEADS_AT_ONCE][head_dim] */
    float *x; /* [QSA_HEADS_AT_ONCE][x_stride] */
    size_t x_stride;
    const void **v_from; /* [longest row] V rows from some dimension on */
} qsa_attend_scratch;

/* Longest row and most blocks of it, for any query of a configuration. */
uint32_t qsa_row_limit(uint32_t ratio, uint32_t budget);
uint32_t qsa_block_limit(uint32_t ratio, uint32_t budget);

/* Floats between the x of two heads: rows begin on cache lines, of which they are an odd number apart, so that the
 * lines of one token lie in different sets of a cache. */
size_t qsa_x_stride(uint32_t n_blocks);

/* The factor c on a query: log2(e) / sqrt(D), rounded once. */
float qsa_query_scale(uint32_t head_dim);

/* The two halves of what follows: x = q.k of the row in scratch, lanes that are not in the row squeezed out; and from x
 * the weights and the dimensions [begin, end) of the output, begin a multiple of 32. out: as below, of dimension 0. */
void qsa_attend_qk(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                   qsa_attend_scratch *scratch);
void qsa_attend_softmax_pv(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t begin,
                           uint32_t end, qsa_attend_scratch *scratch, float *out, size_t out_stride);

/* heads (at most QSA_HEADS_AT_ONCE) query heads over the row in scratch. q in scratch is normed, rotated, times c.
 * out: head h at out + h * out_stride. */
void qsa_attend_heads(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                      qsa_attend_scratch *scratch, float *out, size_t out_stride);

#endif
