/* The generator of the inputs of golden data, and the hash that records exact bits. */
#ifndef QSA_VERIFY_GOLDEN_NUMBERS_H
#define QSA_VERIFY_GOLDEN_NUMBERS_H

#include "console/values.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Value k of a stream, and its bits. */
static inline uint64_t golden_bits64(uint64_t stream, uint64_t k)
{
    return value_bits(stream, k);
}

static inline float golden_value(uint64_t stream, uint64_t k)
{
    return value_at(stream, k);
}

/* To the nearest bf16, ties to even. x is finite and does not round to infinity. */
static inline float golden_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* FNV-1a over the four bytes of every number, lowest first. Start with GOLDEN_HASH_START. */
#define GOLDEN_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t golden_hash_u32(uint64_t hash, uint32_t number)
{
    for (int byte = 0; byte < 4; byte++)
        hash = (hash ^ (number >> 8 * byte & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static inline uint64_t golden_hash_floats(uint64_t hash, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        hash = golden_hash_u32(hash, bits);
    }
    return hash;
}

#endif
