/* SPDX-License-Identifier: Apache-2.0 */
/* Index scores of groups (SPEC section 4): the sum over heads of max(0, q.k). */
#include "kernels/contract.h"
#include "kernels/element.h"
#include "kernels/functions.h"
#include "kernels/template.h"

/* One group's score for one query: q [heads][dim], tile [dim][groups]. */
QSA_INLINE float score_group(const qsa_score_call *c, const float *q, const void *tile, uint32_t group,
                             enum qsa_element type)
{
    float score = 0.0f;
    for (uint32_t h = 0; h < c->heads; h++) {
        float dot = 0.0f;
        for (uint32_t d = 0; d < c->dim; d++)
            dot = fmaf(q[(size_t)h * c->dim + d], qsa_element_at(tile, (size_t)d * c->groups + group, type), dot);
        score = score + (dot < 0.0f ? 0.0f : dot);
    }
    return score;
}

QSA_INLINE void score(const qsa_score_call *c, enum qsa_element type)
{
    float *out = c->out;
    for (uint32_t i = 0; i < c->n_queries; i++)
        for (uint32_t t = 0; t < c->n_tiles; t++)
            for (uint32_t g = 0; g < c->groups; g++)
                *out++ = score_group(c, c->queries + (size_t)i * c->heads * c->dim, c->tiles[t], g, type);
}

void qsa_score__scalar(const qsa_score_call *call, enum qsa_element type)
{
    qsa_expect_score(call, type);
    QSA_WITH_INDEX_ELEMENT(type, score(call, constant_type))
}
