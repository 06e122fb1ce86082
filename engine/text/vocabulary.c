/* SPDX-License-Identifier: Apache-2.0 */
#include "text/vocabulary.h"

#include "base/error.h"
#include "text/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL /* avoids linking a library for one function */
#include <xxhash.h>

enum { NO_TOKEN = -1 };

/* ---- byte-level alphabet ---- */

static bool is_printable(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad && byte <= 0xff);
}

/* The byte written as U+0100 + index. There are 68: 0x00 to 0x20, 0x7f to 0xa0, and 0xad. */
static bool unprintable_byte(unsigned index, unsigned *out_byte)
{
    if (index >= 68)
        return false;
    *out_byte = index <= 0x20 ? index : index < 67 ? index - 0x21 + 0x7f : 0xad;
    return true;
}

/* The byte of one UTF-8 character of the alphabet. All of them have one or two bytes. */
static bool letter_byte(const char *text, size_t length, unsigned *out_byte)
{
    assert(length > 0);
    unsigned point = (unsigned char)text[0];
    if (length == 2)
        point = (point & 0x1fu) << 6 | ((unsigned char)text[1] & 0x3fu);
    if (length > 2)
        return false;
    if (point >= 0x100)
        return unprintable_byte(point - 0x100, out_byte);
    *out_byte = point;
    return is_printable(point);
}

bool alphabet_decode(const char *text, size_t count, char *out, size_t *out_count)
{
    size_t written = 0;
    for (size_t at = 0, length; at < count; at += length) {
        unsigned byte;
        if (utf8_scan(text + at, count - at, &length) != UTF8_VALID || !letter_byte(text + at, length, &byte))
            return false;
        out[written++] = (char)byte;
    }
    assert(written <= count);
    *out_count = written;
    return true;
}

/* ---- tokens ---- */

static bool is_ordinary_type(int32_t type)
{
    return type == TOKEN_NORMAL || type == TOKEN_BYTE;
}

/* Checks sizes and types, and sums the bytes. */
static qsa_status check_tokens(const tokenizer_input *input, size_t *out_bytes)
{
    if (input->token_count > TOKENIZER_MAX_TOKENS)
        return engine_fail(QSA_E_LIMIT, "vocabulary of %zu tokens; at most %d", input->token_count,
                           TOKENIZER_MAX_TOKENS);
    size_t bytes = 0;
    for (size_t i = 0; i < input->token_count; i++) {
        if (input->tokens[i].count > TOKENIZER_MAX_TOKEN_BYTES)
            return engine_fail(QSA_E_LIMIT, "token %zu has %zu bytes; at most %d", i, input->tokens[i].count,
                               TOKENIZER_MAX_TOKEN_BYTES);
        if (input->types && (input->types[i] < TOKEN_NORMAL || input->types[i] > TOKEN_BYTE))
            return engine_fail(QSA_E_FORMAT, "token %zu has type %d; types are 1 to 6", i, (int)input->types[i]);
        bytes += input->tokens[i].count; /* at most 2^24 * 2^16 */
    }
    *out_bytes = bytes;
    return QSA_OK;
}

/* Writes the bytes that a token decodes to and returns how many. An ordinary token with characters outside the alphabet
 * becomes TOKEN_UNKNOWN: decoded literally, never encoded. */
static size_t store_token(text_span token, uint8_t *type, char *out)
{
    size_t count = 0;
    if (*type == TOKEN_UNUSED)
        return 0;
    if (is_ordinary_type(*type)) {
        if (alphabet_decode(token.bytes, token.count, out, &count))
            return count;
        *type = TOKEN_UNKNOWN;
    }
    memcpy(out, token.bytes, token.count);
    return token.count;
}

static void store_tokens(vocabulary *words, const tokenizer_input *input)
{
    size_t end = 0;
    for (size_t i = 0; i < words->count; i++) {
        words->types[i] = input->types ? (uint8_t)input->types[i] : TOKEN_NORMAL;
        words->begins[i] = end;
        size_t count =
            input->tokens[i].count > 0 ? store_token(input->tokens[i], &words->types[i], words->bytes + end) : 0;
        if (count > words->longest_bytes)
            words->longest_bytes = count;
        end += count;
    }
    words->begins[words->count] = end;
}

/* Every byte needs a token, so that every text can be encoded. Of duplicates, the lowest id. */
static qsa_status find_byte_tokens(vocabulary *words)
{
    for (int byte = 0; byte < 256; byte++)
        words->byte_tokens[byte] = NO_TOKEN;
    for (size_t i = words->count; i-- > 0;) {
        text_span token = vocabulary_token(words, (int32_t)i);
        if (is_ordinary_type(words->types[i]) && token.count == 1)
            words->byte_tokens[(unsigned char)token.bytes[0]] = (int32_t)i;
    }
    for (unsigned byte = 0; byte < 256; byte++)
        if (words->byte_tokens[byte] == NO_TOKEN)
            return engine_fail(QSA_E_FORMAT, "the vocabulary has no token for the byte 0x%02x", byte);
    return QSA_OK;
}

qsa_status vocabulary_init(vocabulary *words, const tokenizer_input *input)
{
    assert(input->tokens != NULL || input->token_count == 0);
    size_t bytes = 0;
    memset(words, 0, sizeof *words);
    ENGINE_TRY(check_tokens(input, &bytes));
    words->count = input->token_count;
    words->bytes = malloc(bytes + 1);
    words->begins = calloc(words->count + 1, sizeof *words->begins);
    words->types = calloc(words->count + 1, sizeof *words->types);
    if (!words->bytes || !words->begins || !words->types)
        return engine_fail(QSA_E_MEMORY, "no memory for a vocabulary of %zu tokens", words->count);
    store_tokens(words, input);
    return find_byte_tokens(words);
}

void vocabulary_release(vocabulary *words)
{
    free(words->bytes);
    free(words->begins);
    free(words->types);
    memset(words, 0, sizeof *words);
}

text_span vocabulary_token(const vocabulary *words, int32_t id)
{
    assert(id >= 0 && (size_t)id < words->count);
    size_t begin = words->begins[id];
    return (text_span){words->bytes + begin, words->begins[id + 1] - begin};
}

bool vocabulary_is_special(const vocabulary *words, int32_t id)
{
    assert(id >= 0 && (size_t)id < words->count);
    return words->types[id] == TOKEN_CONTROL || words->types[id] == TOKEN_USER_DEFINED;
}

/* ---- index by bytes ---- */

/* Linear probing: the slot that holds the token, or the free slot where it belongs. The load is at most one half, so it
 * terminates. */
static size_t find_slot(const vocabulary_index *index, const char *bytes, size_t count)
{
    assert((index->slot_count & (index->slot_count - 1)) == 0);
    size_t slot = (size_t)XXH3_64bits(bytes, count) & (index->slot_count - 1);
    while (index->slots[slot] != NO_TOKEN) {
        text_span token = vocabulary_token(index->words, index->slots[slot]);
        if (token.count == count && memcmp(token.bytes, bytes, count) == 0)
            break;
        slot = (slot + 1) & (index->slot_count - 1);
    }
    return slot;
}

qsa_status vocabulary_index_init(vocabulary_index *index, const vocabulary *words)
{
    assert(words->count > 0 && words->count <= TOKENIZER_MAX_TOKENS);
    index->words = words;
    index->slot_count = 2;
    while (index->slot_count < 2 * words->count)
        index->slot_count *= 2;
    index->slots = malloc(index->slot_count * sizeof *index->slots);
    if (!index->slots)
        return engine_fail(QSA_E_MEMORY, "no memory for an index of %zu tokens", words->count);
    for (size_t slot = 0; slot < index->slot_count; slot++)
        index->slots[slot] = NO_TOKEN;
    for (size_t i = 0; i < words->count; i++) {
        text_span token = vocabulary_token(words, (int32_t)i);
        if (!is_ordinary_type(words->types[i]) || token.count == 0)
            continue;
        size_t slot = find_slot(index, token.bytes, token.count);
        if (index->slots[slot] == NO_TOKEN)
            index->slots[slot] = (int32_t)i;
    }
    return QSA_OK;
}

void vocabulary_index_release(vocabulary_index *index)
{
    free(index->slots);
    memset(index, 0, sizeof *index);
}

bool vocabulary_find(const vocabulary_index *index, const char *bytes, size_t count, int32_t *out_id)
{
    int32_t id = index->slots[find_slot(index, bytes, count)];
    if (id == NO_TOKEN)
        return false;
    *out_id = id;
    return true;
}
