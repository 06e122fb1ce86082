/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over the selected tokens (SPEC section 6, rule 4): QK^T, softmax weights, PV. */
#include "kernels/contract.h"
#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

QSA_INLINE void qk(const qsa_qk_call *c, enum qsa_element type)
{
    for (uint32_t h = 0; h < c->heads; h++)
        for (uint32_t b = 0; b < c->n_blocks; b++)
            for (uint32_t t = 0; t < QSA_BLOCK_TOKENS; t++) {
                float dot = 0.0f;
                for (uint32_t d = 0; d < c->dim; d++)
                    dot = fmaf(c->q[(size_t)h * c->dim + d], qsa_k_at(c->blocks[b], d, t, type), dot);
                c->out[h * c->out_stride + (size_t)b * QSA_BLOCK_TOKENS + t] = dot;
            }
}

void qsa_qk__scalar(const qsa_qk_call *call, enum qsa_element type)
{
    qsa_expect_qk(call, type);
    QSA_WITH_ELEMENT(type, qk(call, constant_type))
}

void qsa_softmax__scalar(const qsa_softmax_call *c)
{
    qsa_expect_softmax(c);
    for (uint32_t h = 0; h < c->heads; h++) {
        float *x = c->x + h * c->stride;
        float maximum = -INFINITY;
        for (uint32_t j = 0; j < c->n; j++)
            maximum = x[j] > maximum ? x[j] : maximum;
        c->sum[h] = 0.0f;
        for (uint32_t j = 0; j < c->n; j++) {
            x[j] = qsa_e2(x[j] - maximum);
            c->sum[h] = c->sum[h] + x[j];
        }
    }
}

QSA_INLINE void pv(const qsa_pv_call *c, enum qsa_element type)
{
    for (uint32_t h = 0; h < c->heads; h++) {
        const float reciprocal = 1.0f / c->sum[h];
        for (uint32_t d = 0; d < c->dim; d++) {
            float a = 0.0f;
            for (uint32_t j = 0; j < c->n; j++)
                a = fmaf(c->p[h * c->stride + j], qsa_v_at(c->v[j], d, type), a);
            c->out[h * c->out_stride + d] = a * reciprocal + 0.0f;
        }
    }
}

void qsa_pv__scalar(const qsa_pv_call *call, enum qsa_element type)
{
    qsa_expect_pv(call, type);
    QSA_WITH_ELEMENT(type, pv(call, constant_type))
}
