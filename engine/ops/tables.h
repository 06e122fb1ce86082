/* SPDX-License-Identifier: Apache-2.0 */
/* The tables, and what their files share: parts of operations that are the same scalar code on every instruction set.
 */
#ifndef QSA_OPS_TABLES_H
#define QSA_OPS_TABLES_H

#include "ops/elementary.h"
#include "ops/ops.h"

#include <stdbool.h>

/* A function that is a template: its constant arguments are known wherever it is called. */
#define OPS_INLINE static inline __attribute__((always_inline))

extern const ops_table ops_table_scalar, ops_table_avx2, ops_table_avx512, ops_table_neon;

/* A table of the functions of the file that it stands in. */
/* clang-format off */
#define OPS_DEFINE_TABLE(isa_name)                                                                                     \
    const ops_table ops_table_##isa_name = {.isa = #isa_name,                                                          \
        .norm = norm, .squash = squash, .mix = mix, .residual = residual, .conv = conv, .unit = unit, .gates = gates,  \
        .delta = delta, .gated_norm = gated_norm, .route = route, .swiglu = swiglu, .combine = combine,                \
        .ngram_gate = ngram_gate, .ngram_add = ngram_add, .gate = gate}
/* clang-format on */

/* Under the root of the length of q and k. */
#define OPS_UNIT_EPS 1e-6f
/* Least |c| of an n-gram gate. */
#define OPS_NGRAM_LEAST 1e-6f

/* Row `row` of the tail followed by x: tap k of token t reads row t + k * dilation. */
static inline const float *ops_conv_row(const ops_conv *op, size_t row)
{
    const size_t tail_rows = (op->taps - 1) * op->dilation;
    return row < tail_rows ? op->tail + row * op->channels : op->x + (row - tail_rows) * op->x_stride;
}

/* Puts expert e among the `kept` best so far, of at most `used`, best first. Experts come in ascending order, so an
 * equal one that comes later loses. Returns how many are kept now. */
static inline size_t ops_offer_expert(const float *logits, int32_t e, int32_t *chosen, size_t kept, size_t used)
{
    const float logit = logits[e];
    if (kept == used && !(logit > logits[chosen[used - 1]]))
        return kept;
    size_t at = kept < used ? kept++ : used - 1;
    for (; at > 0 && logit > logits[chosen[at - 1]]; at--)
        chosen[at] = chosen[at - 1];
    chosen[at] = e;
    return kept;
}

/* Softmax over the chosen experts; the first has the largest logit. */
static inline void ops_weigh_experts(const float *logits, const int32_t *chosen, size_t used, float *weight)
{
    float total = 0.0f;
    for (size_t r = 0; r < used; r++) {
        weight[r] = ops_exp(logits[chosen[r]] - logits[chosen[0]]);
        total = total + weight[r];
    }
    for (size_t r = 0; r < used; r++)
        weight[r] = weight[r] / total;
}

/* The n-gram gate of a product <key, query>. */
static inline float ops_ngram_sigmoid(float product, size_t dim)
{
    const float c = product / sqrtf((float)dim), size = fabsf(c);
    const float root = sqrtf(size < OPS_NGRAM_LEAST ? OPS_NGRAM_LEAST : size);
    return ops_sigmoid(c == 0.0f ? 0.0f : copysignf(root, c));
}

#endif
