/* SPDX-License-Identifier: Apache-2.0 */
#include "make/alphabet.h"

#include <assert.h>

/* A printable Latin-1 character stands for itself; the other 68 bytes, ascending, are U+0100 and up. */
static uint32_t character_of_byte(uint32_t byte)
{
    if (byte <= 32)
        return 256 + byte;
    if (byte >= 127 && byte <= 160)
        return 256 + 33 + (byte - 127);
    if (byte == 173)
        return 256 + 33 + 34;
    return byte;
}

char *alphabet_append(char *end, uint32_t byte)
{
    assert(byte < 256);
    uint32_t c = character_of_byte(byte); /* below U+0800 */
    if (c < 128) {
        *end++ = (char)c;
    } else {
        *end++ = (char)(0xC0 | c >> 6);
        *end++ = (char)(0x80 | (c & 0x3F));
    }
    *end = 0;
    return end;
}
