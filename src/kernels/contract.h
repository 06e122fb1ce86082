/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of each call struct, asserted at the entry of every kernel. Nothing of it is in a release build. */
#ifndef QSA_KERNELS_CONTRACT_H
#define QSA_KERNELS_CONTRACT_H

#include "kernels/kernels.h"

#include <assert.h>
#include <qsa/config.h>

static inline void qsa_expect_score(const qsa_score_call *c, enum qsa_element type)
{
    (void)c, (void)type;
    assert((int)type >= 0 && (int)type < QSA_INDEX_ELEMENT_COUNT);
    assert(c->queries != NULL && c->n_queries > 0 && c->heads > 0);
    assert(c->dim > 0 && c->dim <= QSA_MAX_DIM);
    assert(c->groups > 0 && c->groups <= QSA_PAGE_TOKENS);
    assert(c->n_tiles == 0 || (c->tiles != NULL && c->out != NULL));
    assert((uint64_t)c->n_tiles * c->groups <= UINT32_MAX - 2 * QSA_PAGE_TOKENS);
}

/* K and V: at least one pair that rotates, whole chunks. */
static inline void qsa_expect_kv(uint32_t dim, enum qsa_element type)
{
    (void)dim, (void)type;
    assert((int)type >= 0 && (int)type < QSA_ELEMENT_COUNT);
    assert(dim >= 2 && dim <= QSA_MAX_DIM);
    assert(type != QSA_ELEMENT_Q8_0 || dim % QSA_CHUNK_DIMS == 0);
}

static inline void qsa_expect_qk(const qsa_qk_call *c, enum qsa_element type)
{
    qsa_expect_kv(c->dim, type);
    assert(c->q != NULL && c->heads > 0);
    assert(c->blocks != NULL && c->n_blocks > 0);
    assert(c->out != NULL && (c->heads == 1 || c->out_stride >= (size_t)c->n_blocks * QSA_BLOCK_TOKENS));
}

static inline void qsa_expect_softmax(const qsa_softmax_call *c)
{
    (void)c;
    assert(c->x != NULL && c->sum != NULL);
    assert(c->heads > 0 && c->n > 0 && (c->heads == 1 || c->stride >= c->n));
}

static inline void qsa_expect_pv(const qsa_pv_call *c, enum qsa_element type)
{
    qsa_expect_kv(c->dim, type);
    assert(c->p != NULL && c->sum != NULL && c->heads > 0);
    assert(c->v != NULL && c->n > 0 && (c->heads == 1 || c->stride >= c->n));
    assert(c->out != NULL && (c->heads == 1 || c->out_stride >= c->dim));
}

static inline void qsa_expect_norm_rotate(const qsa_norm_rotate_call *c)
{
    (void)c;
    assert(c->x != NULL && c->weight != NULL && c->out != NULL && c->x != c->out);
    assert(c->heads > 0 && c->dim > 0 && c->dim <= QSA_MAX_DIM && c->eps > 0);
    assert(2 * c->pairs <= c->dim && (c->pairs == 0 || (c->cos != NULL && c->sin != NULL)));
}

#endif
