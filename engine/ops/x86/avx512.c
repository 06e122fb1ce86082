/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/tables.h"

#include <immintrin.h>

enum { VEC = 16, DELTA_BLOCKS = 2 };
typedef __m512 vec;

OPS_INLINE vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

OPS_INLINE void vec_store(float *to, vec v)
{
    _mm512_storeu_ps(to, v);
}

OPS_INLINE __mmask16 first_lanes(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

OPS_INLINE vec vec_load_first(const float *from, size_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), from);
}

OPS_INLINE void vec_store_first(float *to, size_t n, vec v)
{
    _mm512_mask_storeu_ps(to, first_lanes(n), v);
}

OPS_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

OPS_INLINE vec vec_if_less(vec x, vec y, vec a, vec b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}

OPS_INLINE vec vec_if_at_most(vec x, vec y, vec a, vec b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LE_OQ), b, a);
}

OPS_INLINE bool vec_any_above(vec x, vec y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) != 0;
}

#include "ops/vector.h"

OPS_DEFINE_TABLE(avx512);
