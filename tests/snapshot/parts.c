#include "parts.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

static uint32_t u32_at(const uint8_t *data)
{
    return data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static uint64_t u64_at(const uint8_t *data)
{
    return u32_at(data) | (uint64_t)u32_at(data + 4) << 32;
}

static void put_u64(uint8_t *data, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        data[i] = (uint8_t)(value >> 8 * i);
}

size_t parts_find(const uint8_t *data, size_t size, part out[PARTS_MAX])
{
    const size_t around = PARTS_SECTION_HEAD_BYTES + PARTS_HASH_BYTES;
    size_t n = 0, at = PARTS_HEAD_BYTES;
    while (n < PARTS_MAX && at + around <= size) {
        part *p = &out[n];
        uint64_t bytes = u64_at(data + at + 16);
        if (bytes > size - at - around)
            return n;
        *p = (part){.number = u32_at(data + at + 4),
                    .rows = u64_at(data + at + 8),
                    .head_at = at,
                    .data_at = at + PARTS_SECTION_HEAD_BYTES,
                    .size = (size_t)bytes};
        memcpy(p->tag, data + at, 4);
        at += around + p->size;
        n++;
    }
    return n;
}

part parts_get(const uint8_t *data, size_t size, const char *tag, uint32_t number)
{
    part all[PARTS_MAX];
    size_t n = parts_find(data, size, all);
    for (size_t i = 0; i < n; i++)
        if (memcmp(all[i].tag, tag, 4) == 0 && all[i].number == number)
            return all[i];
    return (part){0};
}

void parts_seal(uint8_t *data, size_t size)
{
    part all[PARTS_MAX];
    size_t n = parts_find(data, size, all);
    uint64_t hashes[PARTS_MAX];
    XXH3_state_t whole;
    XXH3_64bits_reset(&whole);
    if (size >= PARTS_HEAD_BYTES)
        XXH3_64bits_update(&whole, data, PARTS_HEAD_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (memcmp(all[i].tag, "END ", 4) == 0 && all[i].size >= 8)
            put_u64(data + all[i].data_at, XXH3_64bits_digest(&whole));
        hashes[i] = XXH3_64bits(data + all[i].head_at, PARTS_SECTION_HEAD_BYTES + all[i].size);
        put_u64(data + all[i].data_at + all[i].size, hashes[i]);
        XXH3_64bits_update(&whole, data + all[i].data_at + all[i].size, 8);
    }
}
