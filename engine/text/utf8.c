/* SPDX-License-Identifier: Apache-2.0 */
#include "text/utf8.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static const char REPLACEMENT[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */

/* Length in bytes of a character whose first byte is lead; 0: no character begins with it. */
static size_t character_bytes(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The second byte reveals overlong forms, surrogates and values above U+10FFFF. */
static bool may_follow(unsigned char lead, size_t index, unsigned char byte)
{
    assert(index >= 1 && index < 4);
    unsigned char low = 0x80, high = 0xbf;
    if (index == 1 && lead == 0xe0)
        low = 0xa0;
    else if (index == 1 && lead == 0xed)
        high = 0x9f;
    else if (index == 1 && lead == 0xf0)
        low = 0x90;
    else if (index == 1 && lead == 0xf4)
        high = 0x8f;
    return byte >= low && byte <= high;
}

utf8_kind utf8_scan(const char *bytes, size_t count, size_t *out_length)
{
    assert(count > 0);
    unsigned char lead = (unsigned char)bytes[0];
    size_t whole = character_bytes(lead);
    size_t length = 1;
    while (length < whole && length < count && may_follow(lead, length, (unsigned char)bytes[length]))
        length++;
    *out_length = length;
    if (length == whole)
        return UTF8_VALID;
    return whole > 0 && length == count ? UTF8_INCOMPLETE : UTF8_INVALID;
}

/* Writes the next character, or U+FFFD for an invalid one, and advances *used and *written. false: only an incomplete
 * character is left. */
static bool put_next(const char *bytes, size_t count, size_t *used, char *out, size_t *written)
{
    assert(*used < count);
    size_t length;
    utf8_kind kind = utf8_scan(bytes + *used, count - *used, &length);
    if (kind == UTF8_INCOMPLETE)
        return false;
    const char *text = kind == UTF8_VALID ? bytes + *used : REPLACEMENT;
    size_t text_count = kind == UTF8_VALID ? length : sizeof REPLACEMENT;
    memcpy(out + *written, text, text_count);
    *used += length;
    *written += text_count;
    return true;
}

/* Completes the held bytes with new ones, or replaces them by U+FFFD; returns how many new bytes it consumed. */
static size_t put_held(utf8_stream *stream, const char *bytes, size_t count, char *out, size_t *written)
{
    assert(stream->held_count <= sizeof stream->held);
    size_t taken = 0;
    while (stream->held_count > 0 && taken < count) {
        char joined[4];
        size_t used = 0;
        memcpy(joined, stream->held, stream->held_count);
        joined[stream->held_count] = bytes[taken];
        if (!put_next(joined, stream->held_count + 1, &used, out, written)) {
            stream->held[stream->held_count++] = bytes[taken++];
            continue;
        }
        /* The held bytes are written. The new byte is consumed if it completed them; else it begins a new character. */
        taken += used > stream->held_count;
        stream->held_count = 0;
    }
    return taken;
}

size_t utf8_stream_push(utf8_stream *stream, const char *bytes, size_t count, char *out)
{
    size_t written = 0;
    size_t used = put_held(stream, bytes, count, out, &written);
    while (used < count && put_next(bytes, count, &used, out, &written)) {
    }
    if (used < count) {
        assert(count - used <= sizeof stream->held);
        stream->held_count = count - used;
        memcpy(stream->held, bytes + used, stream->held_count);
    }
    return written;
}

size_t utf8_stream_finish(utf8_stream *stream, char *out)
{
    if (stream->held_count == 0)
        return 0;
    stream->held_count = 0;
    memcpy(out, REPLACEMENT, sizeof REPLACEMENT);
    return sizeof REPLACEMENT;
}
