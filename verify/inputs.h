/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that the strict lane makes up: random projections of a stated shape. */
#ifndef QSA_VERIFY_INPUTS_H
#define QSA_VERIFY_INPUTS_H

#include "verify/golden_case.h"

typedef struct lane_shape {
    uint32_t q_heads, kv_heads, head_dim;
    uint32_t index_heads, index_dim;
    uint32_t rotary_dim, sections[3];
    uint32_t budget, ratio;
} lane_shape;

/* 4 and 2 heads of 64, indexer 2 x 32, 8 groups of 4: sparse from 36 tokens on. */
extern const lane_shape lane_small;
/* Budget 2,048 as released, on heads of 16: cheap enough for every length. */
extern const lane_shape lane_thin;
/* That of Qwen3.8-Flash-Next. */
extern const lane_shape lane_released;

/* n tokens from position `anchor` on; bf16: K/V type and index profile. Free with golden_case_free(). */
golden_case lane_case(const lane_shape *shape, uint32_t n, int64_t anchor, bool kv_bf16, bool index_bf16);

/* One stream of inputs for a case of any length: value k of `stream`, spread as those of lane_case. */
float lane_value(uint64_t stream, uint64_t k);

#endif
