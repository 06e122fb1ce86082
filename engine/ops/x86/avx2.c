/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/tables.h"

#include <immintrin.h>

enum { VEC = 8, DELTA_BLOCKS = 1 };
typedef __m256 vec;

OPS_INLINE vec vec_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

OPS_INLINE void vec_store(float *to, vec v)
{
    _mm256_storeu_ps(to, v);
}

/* All bits of the first n lanes. */
OPS_INLINE __m256i first_lanes(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

OPS_INLINE vec vec_load_first(const float *from, size_t n)
{
    return _mm256_maskload_ps(from, first_lanes(n));
}

OPS_INLINE void vec_store_first(float *to, size_t n, vec v)
{
    _mm256_maskstore_ps(to, first_lanes(n), v);
}

OPS_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

OPS_INLINE vec vec_if_less(vec x, vec y, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}

OPS_INLINE vec vec_if_at_most(vec x, vec y, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LE_OQ));
}

OPS_INLINE bool vec_any_above(vec x, vec y)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ)) != 0;
}

#include "ops/vector.h"

OPS_DEFINE_TABLE(avx2);
