/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 validation, of whole text and of a stream.
 *
 * Valid as the Unicode standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF. Invalid bytes are
 * grouped into maximal subparts; the stream replaces each by one U+FFFD. */
#ifndef QSA_ENGINE_TEXT_UTF8_H
#define QSA_ENGINE_TEXT_UTF8_H

#include <stddef.h>

typedef enum utf8_kind {
    UTF8_VALID,     /* a character */
    UTF8_INVALID,   /* bytes that are not a character, whatever follows */
    UTF8_INCOMPLETE /* all given bytes are the beginning of a character */
} utf8_kind;

/* Classifies the beginning of bytes [0, count), count >= 1. *out_length: how many bytes that is, 1 to 4. */
utf8_kind utf8_scan(const char *bytes, size_t count, size_t *out_length);

/* The bytes held back because their character is incomplete. All zeros: a new stream. */
typedef struct utf8_stream {
    char held[3];
    size_t held_count;
} utf8_stream;

/* Upper bound on the bytes that utf8_stream_push writes for `count` bytes: each may become a U+FFFD of three. */
static inline size_t utf8_stream_bound(size_t count)
{
    return 3 * (count + 3);
}

/* Consumes count bytes, writes whole characters only, and returns how many bytes it wrote. out has room for
 * utf8_stream_bound(count) bytes and does not overlap bytes. */
size_t utf8_stream_push(utf8_stream *stream, const char *bytes, size_t count, char *out);

/* Ends the text: writes one U+FFFD (3 bytes) if bytes are held back, and returns how many it wrote. The stream is new
 * again. */
size_t utf8_stream_finish(utf8_stream *stream, char *out);

#endif
