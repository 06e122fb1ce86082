/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up inputs: values by place, the same on every machine. */
#ifndef QSA_CONSOLE_VALUES_H
#define QSA_CONSOLE_VALUES_H

#include "src/base/splitmix64.h"

/* The 64 bits behind value k of a stream. */
static inline uint64_t value_bits(uint64_t stream, uint64_t k)
{
    return splitmix64_mix((stream << 32) + k + SPLITMIX64_STEP);
}

/* Value k of a stream: the sum of four 16-bit numbers, so about normal with standard deviation 0.577; a multiple of
 * 2^-16, so exact in f32. */
static inline float value_at(uint64_t stream, uint64_t k)
{
    const uint64_t x = value_bits(stream, k);
    const int64_t sum =
        (int64_t)(x & 0xffff) + (int64_t)(x >> 16 & 0xffff) + (int64_t)(x >> 32 & 0xffff) + (int64_t)(x >> 48);
    return (float)(sum - 131070) / 65536.0f;
}

#endif
