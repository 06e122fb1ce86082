/* SPDX-License-Identifier: Apache-2.0 */
#include "text/nfc.h"

#include "base/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    CLASSES = 256,       /* canonical combining classes */
    MOST_DECOMPOSED = 8, /* code points of one decomposed character; Unicode needs at most 4 */
    MOST_CHARACTER_BYTES = 4,
    NO_FINAL_CONSONANT = 0x11a7
};

static const utf8proc_option_t OPTIONS = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

void nfc_work_release(nfc_work *work)
{
    free(work->points);
    free(work->sorted);
    memset(work, 0, sizeof *work);
}

static qsa_status no_memory(void)
{
    return engine_fail(QSA_E_MEMORY, "no memory to normalise text");
}

/* Appends the canonical decomposition of one character. */
static qsa_status decompose(nfc_work *work, int32_t character)
{
    assert(character >= 0 && character <= 0x10ffff);
    size_t needed = work->points_count + MOST_DECOMPOSED;
    int32_t *points = list_grow(work->points, &work->points_capacity, needed, sizeof *points);
    if (!points)
        return no_memory();
    work->points = points;
    int boundary = 0;
    utf8proc_ssize_t added =
        utf8proc_decompose_char(character, points + work->points_count, MOST_DECOMPOSED, OPTIONS, &boundary);
    if (added < 0 || added > MOST_DECOMPOSED)
        return engine_fail(QSA_E_UNSUPPORTED, "this utf8proc cannot decompose U+%04X", (unsigned)character);
    work->points_count += (size_t)added;
    return QSA_OK;
}

static qsa_status decompose_all(nfc_work *work, const char *bytes, size_t count)
{
    work->points_count = 0;
    for (size_t at = 0; at < count;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t length =
            utf8proc_iterate((const utf8proc_uint8_t *)bytes + at, (utf8proc_ssize_t)(count - at), &character);
        if (length <= 0)
            return engine_fail(QSA_E_ARGUMENT, "text to normalise is not UTF-8 at byte %zu", at);
        ENGINE_TRY(decompose(work, character));
        at += (size_t)length;
    }
    return QSA_OK;
}

static unsigned combining_class(int32_t point)
{
    return (unsigned)utf8proc_get_property(point)->combining_class;
}

/* Stable counting sort of a run of marks by combining class. */
static qsa_status sort_marks(nfc_work *work, int32_t *marks, size_t count)
{
    assert(count > 1);
    int32_t *sorted = list_grow(work->sorted, &work->sorted_capacity, count, sizeof *sorted);
    if (!sorted)
        return no_memory();
    work->sorted = sorted;
    size_t next[CLASSES + 1] = {0};
    for (size_t i = 0; i < count; i++)
        next[combining_class(marks[i]) + 1]++;
    for (size_t c = 0; c < CLASSES; c++)
        next[c + 1] += next[c];
    for (size_t i = 0; i < count; i++)
        sorted[next[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *marks);
    return QSA_OK;
}

/* Canonical ordering: sorts each maximal run of marks (class above 0) by class. */
static qsa_status order_marks(nfc_work *work)
{
    size_t begin = 0;
    while (begin < work->points_count) {
        unsigned last = combining_class(work->points[begin]);
        bool ordered = true;
        size_t end = begin + 1;
        for (; last > 0 && end < work->points_count; end++) {
            unsigned class = combining_class(work->points[end]);
            if (class == 0)
                break;
            ordered = ordered && last <= class;
            last = class;
        }
        if (!ordered)
            ENGINE_TRY(sort_marks(work, work->points + begin, end - begin));
        begin = end;
    }
    return QSA_OK;
}

static qsa_status append_points(const int32_t *points, size_t count, byte_list *out)
{
    ENGINE_TRY(byte_list_reserve(out, count * MOST_CHARACTER_BYTES));
    for (size_t i = 0; i < count; i++)
        out->count += (size_t)utf8proc_encode_char(points[i], (utf8proc_uint8_t *)out->items + out->count);
    assert(out->count <= out->capacity);
    return QSA_OK;
}

/* Composes the ordered code points and appends them as UTF-8. U+11A7 composes with nothing, but utf8proc 2.8 mistakes
 * it for the final consonant of a Hangul syllable and drops it. So the points are composed in ranges, and U+11A7 always
 * begins a new one. */
static qsa_status compose(nfc_work *work, byte_list *out)
{
    size_t end;
    for (size_t begin = 0; begin < work->points_count; begin = end) {
        int32_t *points = work->points + begin;
        for (end = begin + 1; end < work->points_count && work->points[end] != NO_FINAL_CONSONANT;)
            end++;
        utf8proc_ssize_t count = utf8proc_normalize_utf32(points, (utf8proc_ssize_t)(end - begin), OPTIONS);
        if (count < 0)
            return engine_fail(QSA_E_UNSUPPORTED, "utf8proc: %s", utf8proc_errmsg(count));
        ENGINE_TRY(append_points(points, (size_t)count, out));
    }
    return QSA_OK;
}

static qsa_status append_normalised(nfc_work *work, const char *bytes, size_t count, byte_list *out)
{
    ENGINE_TRY(decompose_all(work, bytes, count));
    ENGINE_TRY(order_marks(work));
    return compose(work, out);
}

static size_t ascii_bytes(const char *bytes, size_t count)
{
    size_t length = 0;
    while (length < count && (unsigned char)bytes[length] < 0x80)
        length++;
    return length;
}

/* ASCII is its own NFC, and an ASCII character never composes with the character before it. So runs of ASCII are copied
 * and only the runs between them are normalised, each together with the ASCII character before it, because a combining
 * mark may compose with that one. */
qsa_status nfc_append(nfc_work *work, const char *bytes, size_t count, byte_list *out)
{
    assert(bytes != NULL || count == 0);
    for (size_t at = 0; at < count;) {
        size_t plain = ascii_bytes(bytes + at, count - at);
        size_t base = plain > 0 && at + plain < count ? 1 : 0;
        ENGINE_TRY(byte_list_append(out, bytes + at, plain - base));
        at += plain - base;
        size_t end = at + base;
        while (end < count && (unsigned char)bytes[end] >= 0x80)
            end++;
        ENGINE_TRY(append_normalised(work, bytes + at, end - at, out));
        at = end;
    }
    return QSA_OK;
}
