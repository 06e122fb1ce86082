/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax weights (SPEC section 6, rule 4) on vec. The maximum and E2 run along a head's row; the chain L cannot, so
 * there lanes are heads. (E2 of the next block of tokens between the additions of this one was slower.) */
#ifndef QSA_KERNELS_SIMD_SOFTMAX_H
#define QSA_KERNELS_SIMD_SOFTMAX_H

#include "kernels/contract.h"
#include "kernels/simd/chains.h"

static inline float row_maximum(const float *x, size_t n)
{
    const vec lowest = vec_set(-INFINITY);
    vec m[4] = {lowest, lowest, lowest, lowest};
    size_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        QSA_UNROLL
        for (size_t v = 0; v < 4; v++)
            m[v] = vec_max(m[v], vec_load(x + j + LANES * v));
    }
    for (; j < n; j += LANES)
        m[0] = vec_max(m[0], vec_load_first(x + j, n - j, lowest));
    return vec_largest(vec_max(vec_max(m[0], m[1]), vec_max(m[2], m[3])));
}

/* qsa_e2 of each lane. */
QSA_INLINE vec e2(vec x)
{
    const vec rounder = vec_set(QSA_E2_ROUNDER);
    const vec shifted = vec_add(x, rounder);
    const vec r = vec_sub(x, vec_sub(shifted, rounder));
    vec p = vec_set(QSA_E2_C6);
    p = vec_fma(p, r, vec_set(QSA_E2_C5));
    p = vec_fma(p, r, vec_set(QSA_E2_C4));
    p = vec_fma(p, r, vec_set(QSA_E2_C3));
    p = vec_fma(p, r, vec_set(QSA_E2_C2));
    p = vec_fma(p, r, vec_set(QSA_E2_C1));
    p = vec_fma(p, r, vec_set(QSA_E2_C0));
    return vec_zero_below(vec_times_power(p, shifted, rounder), x, QSA_E2_LOWEST);
}

static inline void exponentiate(float *x, size_t n)
{
    const vec maximum = vec_set(row_maximum(x, n));
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        vec_store(x + j, e2(vec_sub(vec_load(x + j), maximum)));
    if (j < n)
        vec_store_first(x + j, n - j, e2(vec_sub(vec_load_first(x + j, n - j, vec_zero()), maximum)));
}

static inline void softmax(const qsa_softmax_call *c)
{
    qsa_expect_softmax(c);
    for (uint32_t h = 0; h < c->heads; h++)
        exponentiate(c->x + h * c->stride, c->n);
    for (uint32_t h = 0; h < c->heads; h += CHAIN_ROWS) {
        const uint32_t count = c->heads - h < CHAIN_ROWS ? c->heads - h : CHAIN_ROWS;
        float sums[CHAIN_ROWS];
        chains(c->x + h * c->stride, c->stride, count, c->n, false, sums);
        memcpy(c->sum + h, sums, count * sizeof *sums);
    }
}

#endif
