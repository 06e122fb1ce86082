/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/tables.h"

#include <arm_neon.h>

enum { VEC = 4, DELTA_BLOCKS = 1 };
typedef float32x4_t vec;

OPS_INLINE vec vec_load(const float *from)
{
    return vld1q_f32(from);
}

OPS_INLINE void vec_store(float *to, vec v)
{
    vst1q_f32(to, v);
}

OPS_INLINE vec vec_load_first(const float *from, size_t n)
{
    float lanes[VEC] = {0};
    memcpy(lanes, from, n * sizeof *from);
    return vld1q_f32(lanes);
}

OPS_INLINE void vec_store_first(float *to, size_t n, vec v)
{
    float lanes[VEC];
    vst1q_f32(lanes, v);
    memcpy(to, lanes, n * sizeof *to);
}

OPS_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

OPS_INLINE vec vec_if_less(vec x, vec y, vec a, vec b)
{
    return vbslq_f32(vcltq_f32(x, y), a, b);
}

OPS_INLINE vec vec_if_at_most(vec x, vec y, vec a, vec b)
{
    return vbslq_f32(vcleq_f32(x, y), a, b);
}

OPS_INLINE bool vec_any_above(vec x, vec y)
{
    return vmaxvq_u32(vcgtq_f32(x, y)) != 0;
}

#include "ops/vector.h"

OPS_DEFINE_TABLE(neon);
