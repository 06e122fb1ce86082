/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of AVX-512 whose loops are those of simd/. Shapes that would leave lanes idle go to AVX2. */
#include "kernels/x86/avx512.h"

#include "kernels/simd/pv.h"
#include "kernels/simd/score.h"
#include "kernels/simd/softmax.h"

void qsa_score__avx512(const qsa_score_call *call, enum qsa_element type)
{
    if (call->groups % LANES == 0) {
        qsa_expect_score(call, type);
        QSA_WITH_INDEX_ELEMENT(type, score_in_place(call, constant_type))
    } else
        qsa_score__avx2(call, type);
}

void qsa_softmax__avx512(const qsa_softmax_call *call)
{
    softmax(call);
}

void qsa_pv__avx512(const qsa_pv_call *call, enum qsa_element type)
{
    if (call->dim >= TILE) {
        qsa_expect_pv(call, type);
        pv(call, type);
    } else
        qsa_pv__avx2(call, type);
}
