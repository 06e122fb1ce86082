/* SPDX-License-Identifier: Apache-2.0 */
/* Random inputs of the checks. */
#ifndef QSA_VERIFY_INPUTS_H
#define QSA_VERIFY_INPUTS_H

#include "verify/golden_case.h"

typedef enum input_shape {
    SHAPE_SMALL,   /* 4 query and 2 kv heads of 64, indexer 2 x 32, budget 32: sparse from 36 tokens on */
    SHAPE_THIN,    /* the released budget of 2,048 with heads of 16: cheap at any length */
    SHAPE_RELEASED /* Qwen3.8-Flash-Next's */
} input_shape;

/* K/V type and index profile, f32 unless the bit is set. A check runs all four combinations. */
enum { TYPES_F32 = 0, KV_BF16 = 1, INDEX_BF16 = 2, TYPES_BF16 = KV_BF16 | INDEX_BF16, TYPES_COUNT = 4 };

/* Random projections of n tokens from position `anchor` on. Free with golden_case_free(). */
golden_case random_case(input_shape shape, uint32_t n, int64_t anchor, int types);

/* Element k of the infinite tensor `stream`: mean 0, variance about 1, the same on every machine. */
float random_value(uint64_t stream, uint64_t k);

#endif
