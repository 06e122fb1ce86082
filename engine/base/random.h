/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by place: value k of stream s under a seed, in any order. */
#ifndef QSA_ENGINE_BASE_RANDOM_H
#define QSA_ENGINE_BASE_RANDOM_H

#include "base/splitmix64.h"

static inline uint64_t random_value(uint64_t seed, uint64_t stream, uint64_t k)
{
    const uint64_t base = splitmix64_mix(seed + SPLITMIX64_STEP) + (stream << 32);
    return splitmix64_mix(base + k + SPLITMIX64_STEP);
}

/* +1 or -1. */
static inline float random_sign(uint64_t seed, uint64_t stream, uint64_t k)
{
    return random_value(seed, stream, k) >> 63 ? 1.0f : -1.0f;
}

/* Below n, which is at most 2^32: the high half of a product, whose bias (n / 2^32) does not matter here. */
static inline uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t k, uint64_t n)
{
    return (random_value(seed, stream, k) >> 32) * n >> 32;
}

#endif
