/* SPDX-License-Identifier: Apache-2.0 */
/* SplitMix64, the only source of pseudo-random numbers here: for the sampler, synthetic models and tests. All
 * arithmetic wraps. */
#ifndef QSA_BASE_SPLITMIX64_H
#define QSA_BASE_SPLITMIX64_H

#include <stdint.h>

#define SPLITMIX64_STEP UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t splitmix64_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* The next number. The first state is the seed. */
static inline uint64_t splitmix64_next(uint64_t *state)
{
    return splitmix64_mix(*state += SPLITMIX64_STEP);
}

#endif
