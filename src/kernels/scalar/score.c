/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of groups (SPEC section 4): the sum over heads of what is positive of q.k. */
#include "kernels/element.h"
#include "kernels/functions.h"

/* One group's score for one query: q [heads][dim], tile [dim][groups]. */
static inline float score_group(const float *q, uint32_t heads, uint32_t dim, const void *tile, uint32_t groups,
                                uint32_t group, enum qsa_element type)
{
    float score = 0.0f;
    for (uint32_t h = 0; h < heads; h++) {
        float dot = 0.0f;
        for (uint32_t d = 0; d < dim; d++)
            dot = fmaf(q[(size_t)h * dim + d], qsa_element_at(tile, (size_t)d * groups + group, type), dot);
        score = score + (dot < 0.0f ? 0.0f : dot);
    }
    return score;
}

static inline void score(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                         const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out, enum qsa_element type)
{
    for (uint32_t i = 0; i < n_queries; i++)
        for (uint32_t t = 0; t < n_tiles; t++)
            for (uint32_t g = 0; g < groups; g++)
                *out++ = score_group(queries + (size_t)i * heads * dim, heads, dim, tiles[t], groups, g, type);
}

void qsa_score_f32__scalar(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                           const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    score(queries, n_queries, heads, dim, tiles, n_tiles, groups, out, QSA_ELEMENT_F32);
}

void qsa_score_bf16__scalar(const float *queries, uint32_t n_queries, uint32_t heads, uint32_t dim,
                            const void *const *tiles, uint32_t n_tiles, uint32_t groups, float *out)
{
    score(queries, n_queries, heads, dim, tiles, n_tiles, groups, out, QSA_ELEMENT_BF16);
}
