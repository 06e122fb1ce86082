/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of NEON whose loops are those of simd/. */
#include "kernels/arm/neon.h"

#include "kernels/simd/pv.h"
#include "kernels/simd/score.h"
#include "kernels/simd/softmax.h"
#include "kernels/simd/vector.h"

void qsa_score__neon(const qsa_score_call *call, enum qsa_element type)
{
    qsa_expect_score(call, type);
    if (call->groups % LANES == 0)
        QSA_WITH_INDEX_ELEMENT(type, score_in_place(call, constant_type))
    else
        score_gathered(call, type);
}

void qsa_softmax__neon(const qsa_softmax_call *call)
{
    softmax(call);
}

void qsa_pv__neon(const qsa_pv_call *call, enum qsa_element type)
{
    qsa_expect_pv(call, type);
    if (call->dim < TILE)
        qsa_pv__scalar(call, type);
    else
        pv(call, type);
}

void qsa_norm_rotate__neon(const qsa_norm_rotate_call *call)
{
    norm_rotate(call);
}

size_t qsa_check__neon(const float *x, size_t n, float limit)
{
    return check(x, n, limit);
}

void qsa_to_bf16__neon(const float *x, size_t n, uint16_t *out)
{
    to_bf16(x, n, out);
}
