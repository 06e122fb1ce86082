/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by place: value k of stream s under a seed, in any order. The mixer is splitmix64's. */
#ifndef QSA_ENGINE_BASE_RANDOM_H
#define QSA_ENGINE_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static inline uint64_t random_value(uint64_t seed, uint64_t stream, uint64_t k)
{
    uint64_t base = random_mix(seed + UINT64_C(0x9E3779B97F4A7C15)) + (stream << 32);
    return random_mix(base + k + UINT64_C(0x9E3779B97F4A7C15));
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
