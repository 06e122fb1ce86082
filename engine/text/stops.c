/* SPDX-License-Identifier: Apache-2.0 */
/* Stop strings in generated text: each is matched byte by byte by an automaton (Knuth, Morris, Pratt), so that the cuts
 * between tokens do not matter.
 *
 * Invariant, between calls: the text held back is the longest end of the text so far with which a stop string begins,
 * unless one was found; then nothing is held back. */
#include "base/error.h"

#include <assert.h>
#include <qsa_engine.h>
#include <stdlib.h>
#include <string.h>

typedef struct stop_string {
    size_t length;
    size_t matched; /* the text ends with that many of its bytes, the most below its length */
    char *bytes;    /* [length] */
    size_t *fall;   /* [length] fall[i]: of the first i bytes, how many at their end are also a beginning, below i */
} stop_string;

struct qsa_stops {
    stop_string *strings; /* [count] */
    size_t count;
    char *text; /* held back, and the bytes given out by the last call before it */
    size_t given, held, capacity;
    bool is_found;
    size_t found;
};

/* ---- life ---- */

/* How many bytes of the string the text ends with, when a byte follows `matched` of them. */
static size_t follow(const stop_string *s, size_t matched, char byte)
{
    while (matched > 0 && s->bytes[matched] != byte)
        matched = s->fall[matched];
    return matched + (s->bytes[matched] == byte);
}

static bool copy_string(stop_string *s, const char *string)
{
    s->length = strlen(string);
    s->bytes = malloc(s->length);
    s->fall = calloc(s->length, sizeof *s->fall);
    if (s->bytes == NULL || s->fall == NULL)
        return false;
    memcpy(s->bytes, string, s->length);
    for (size_t i = 1; i + 1 < s->length; i++)
        s->fall[i + 1] = follow(s, s->fall[i], s->bytes[i]);
    return true;
}

qsa_status qsa_stops_create(const char *const *strings, size_t n, qsa_stops **out_stops)
{
    if (out_stops == NULL || (strings == NULL && n > 0))
        return engine_fail(QSA_E_ARGUMENT, "qsa_stops_create: strings or out_stops is NULL");
    for (size_t i = 0; i < n; i++)
        if (strings[i] == NULL || strings[i][0] == '\0')
            return engine_fail(QSA_E_ARGUMENT, "stop string %zu is empty", i);
    qsa_stops *stops = calloc(1, sizeof *stops);
    bool is_good = stops != NULL && (n == 0 || (stops->strings = calloc(n, sizeof *stops->strings)) != NULL);
    for (size_t i = 0; is_good && i < n; i++) {
        stops->count = i + 1;
        is_good = copy_string(&stops->strings[i], strings[i]);
    }
    if (!is_good) {
        qsa_stops_destroy(stops);
        return engine_fail(QSA_E_MEMORY, "no memory for %zu stop strings", n);
    }
    *out_stops = stops;
    return QSA_OK;
}

void qsa_stops_destroy(qsa_stops *stops)
{
    if (stops == NULL)
        return;
    for (size_t i = 0; i < stops->count; i++) {
        free(stops->strings[i].bytes);
        free(stops->strings[i].fall);
    }
    free(stops->strings);
    free(stops->text);
    free(stops);
}

/* ---- matching ---- */

/* Drops what was given out, and makes room for n more bytes. */
static qsa_status make_room(qsa_stops *stops, size_t n)
{
    const size_t wanted = stops->held + n;
    if (wanted < n)
        return engine_fail(QSA_E_MEMORY, "no memory for %zu bytes of text", n);
    if (stops->given + wanted > stops->capacity) {
        char *grown = malloc(2 * wanted);
        if (grown == NULL)
            return engine_fail(QSA_E_MEMORY, "no memory for %zu bytes of text", wanted);
        if (stops->held > 0)
            memcpy(grown, stops->text + stops->given, stops->held);
        free(stops->text);
        stops->text = grown;
        stops->capacity = 2 * wanted;
    } else if (stops->held > 0) {
        memmove(stops->text, stops->text + stops->given, stops->held);
    }
    stops->given = 0;
    return QSA_OK;
}

/* Moves every automaton by a byte. Returns the length of the longest stop string that ends with it; 0: none does. */
static size_t match(qsa_stops *stops, char byte)
{
    size_t longest = 0;
    for (size_t i = 0; i < stops->count; i++) {
        stop_string *s = &stops->strings[i];
        s->matched = follow(s, s->matched, byte);
        if (s->matched < s->length)
            continue;
        s->matched = s->length > 1 ? follow(s, s->fall[s->length - 1], byte) : 0;
        if (s->length > longest) {
            longest = s->length;
            stops->found = i;
        }
    }
    return longest;
}

static size_t longest_beginning(const qsa_stops *stops)
{
    size_t longest = 0;
    for (size_t i = 0; i < stops->count; i++)
        longest = stops->strings[i].matched > longest ? stops->strings[i].matched : longest;
    return longest;
}

qsa_status qsa_stops_take(qsa_stops *stops, const char *bytes, size_t n, const char **out_text, size_t *out_n)
{
    assert(stops != NULL && (bytes != NULL || n == 0) && out_text != NULL && out_n != NULL);
    if (stops->is_found)
        n = 0;
    ENGINE_TRY(make_room(stops, n));
    size_t length = stops->held, stop = 0;
    for (size_t i = 0; i < n && stop == 0; i++) {
        stops->text[length++] = bytes[i];
        stop = match(stops, bytes[i]);
    }
    assert(stop <= length);
    stops->is_found = stops->is_found || stop > 0;
    stops->held = stops->is_found ? 0 : longest_beginning(stops);
    stops->given = length - stop - stops->held;
    *out_text = stops->given > 0 ? stops->text : "";
    *out_n = stops->given;
    return QSA_OK;
}

bool qsa_stops_found(const qsa_stops *stops, size_t *out_index)
{
    if (stops->is_found && out_index != NULL)
        *out_index = stops->found;
    return stops->is_found;
}

void qsa_stops_held(const qsa_stops *stops, const char **out_text, size_t *out_n)
{
    *out_text = stops->held > 0 ? stops->text + stops->given : "";
    *out_n = stops->held;
}
