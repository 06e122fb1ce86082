/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over the selected tokens of a query: their addresses, then two passes with the exact maximum (SPEC sections
 * 5 and 6). */
#ifndef QSA_ATTEND_ATTEND_H
#define QSA_ATTEND_ATTEND_H

#include "kernels/kernels.h"

/* Query heads that go through the selected tokens together and share the loads of K and V. */
enum { QSA_HEADS_AT_ONCE = 16 };

/* The selected tokens of a query for one kv head, as addresses, in order of position. */
typedef struct qsa_addresses {
    const void **blocks; /* K blocks [n_blocks] that hold at least one selected token */
    const void **v;      /* V rows [n] */
    uint32_t *lanes;     /* [n] index of token j among the blocks' lanes, 4 * block + lane, ascending */
    uint32_t n_blocks, n;
    bool compact; /* lanes[j] == j for all j */
} qsa_addresses;

/* Scratch of one part. */
typedef struct qsa_attend_scratch {
    qsa_addresses selected;
    float *q; /* [QSA_HEADS_AT_ONCE][head_dim] */
    float *x; /* [QSA_HEADS_AT_ONCE][x_stride] */
    size_t x_stride;
    const void **v_from; /* [qsa_selected_limit] V rows from dimension `begin` on */
} qsa_attend_scratch;

/* Most selected tokens of a query, and most K blocks that hold them, in a configuration. */
uint32_t qsa_selected_limit(uint32_t ratio, uint32_t budget);
uint32_t qsa_block_limit(uint32_t ratio, uint32_t budget);

/* Floats from one head's scores x to the next head's: an odd number of cache lines, so that one token's scores of all
 * heads fall into different cache sets. */
size_t qsa_x_stride(uint32_t n_blocks);

/* The scale c of a query: log2(e) / sqrt(D), rounded once. */
float qsa_query_scale(uint32_t head_dim);

/* The two halves of qsa_attend_heads. The first: x = QK^T over the selected tokens in scratch, without the lanes of
 * tokens that are not selected. The second: softmax of x, and dimensions [begin, end) of PV; begin is a multiple of 32,
 * out as below points to dimension 0. */
void qsa_attend_qk(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                   qsa_attend_scratch *scratch);
void qsa_attend_softmax_pv(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t begin,
                           uint32_t end, qsa_attend_scratch *scratch, float *out, size_t out_stride);

/* heads (at most QSA_HEADS_AT_ONCE) query heads over the selected tokens in scratch. q in scratch is normed, rotated
 * and scaled by c. out: head h at out + h * out_stride. */
void qsa_attend_heads(const qsa_kernels *kernels, enum qsa_element element, uint32_t heads, uint32_t dim,
                      qsa_attend_scratch *scratch, float *out, size_t out_stride);

#endif
