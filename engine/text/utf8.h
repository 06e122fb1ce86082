/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8: what is a character, and text that arrives in pieces.
 *
 * Valid means valid by the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF. What is not
 * valid is cut into maximal subparts, each of which becomes one U+FFFD when it is printed. */
#ifndef QSA_ENGINE_TEXT_UTF8_H
#define QSA_ENGINE_TEXT_UTF8_H

#include <stddef.h>

typedef enum utf8_kind {
    UTF8_VALID,     /* a character */
    UTF8_INVALID,   /* bytes that are no character, whatever follows */
    UTF8_INCOMPLETE /* all bytes given are the beginning of a character */
} utf8_kind;

/* Classifies the beginning of bytes [0, count), count >= 1, and says in *out_length how many bytes that is: 1 to 4. */
utf8_kind utf8_scan(const char *bytes, size_t count, size_t *out_length);

/* The bytes held back because their character is not complete. All zeros: a fresh stream. */
typedef struct utf8_stream {
    char held[3];
    size_t held_count;
} utf8_stream;

/* Most bytes that utf8_stream_push writes for `count` bytes: each may become a U+FFFD of three. */
static inline size_t utf8_stream_bound(size_t count)
{
    return 3 * (count + 3);
}

/* Takes count bytes, writes whole characters only, and returns how many bytes it wrote. out has room for
 * utf8_stream_bound(count) and does not overlap bytes. */
size_t utf8_stream_push(utf8_stream *stream, const char *bytes, size_t count, char *out);

/* The end: what is held back is no character any more. Writes up to 3 bytes, returns how many; the stream is fresh. */
size_t utf8_stream_finish(utf8_stream *stream, char *out);

#endif
