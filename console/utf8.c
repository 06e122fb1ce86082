/* SPDX-License-Identifier: Apache-2.0 */
#include "console/utf8.h"

#include "console/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What stands at the beginning of some bytes. */
typedef struct sequence {
    size_t length;
    bool is_character;
    bool is_cut; /* a character so far, and the bytes end */
} sequence;

/* Bytes that may follow a lead byte: how many, and the range of the first (the others are 80..BF). */
static size_t follow(uint8_t lead, uint8_t *least, uint8_t *most)
{
    *least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 1;
    if (lead >= 0xe0 && lead <= 0xef)
        return 2;
    return lead >= 0xf0 && lead <= 0xf4 ? 3 : 0;
}

static sequence first_sequence(const char *bytes, size_t n)
{
    const uint8_t *b = (const uint8_t *)bytes;
    uint8_t least, most;
    if (b[0] < 0x80)
        return (sequence){.length = 1, .is_character = true};
    const size_t more = follow(b[0], &least, &most);
    size_t length = 1;
    for (; length <= more && length < n; length++) {
        if (b[length] < least || b[length] > most)
            return (sequence){.length = length};
        least = 0x80;
        most = 0xbf;
    }
    if (length <= more)
        return (sequence){.length = length, .is_cut = true};
    return (sequence){.length = length, .is_character = more > 0};
}

size_t utf8_whole(const char *bytes, size_t n)
{
    size_t at = 0;
    while (at < n) {
        const sequence s = first_sequence(bytes + at, n - at);
        if (s.is_cut)
            break;
        at += s.length;
    }
    return at;
}

char *utf8_lossy(const char *bytes, size_t n, size_t *out_n)
{
    char *text = memory_new(3 * n + 1, 1); /* U+FFFD has three bytes */
    size_t size = 0;
    for (size_t at = 0; at < n;) {
        const sequence s = first_sequence(bytes + at, n - at);
        const size_t length = s.is_character ? s.length : 3;
        memcpy(text + size, s.is_character ? bytes + at : "\xef\xbf\xbd", length);
        size += length;
        at += s.length;
    }
    *out_n = size;
    return text;
}
