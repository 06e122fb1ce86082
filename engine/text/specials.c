/* SPDX-License-Identifier: Apache-2.0 */
#include "text/specials.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_tokens(const void *a, const void *b)
{
    const special_token *x = a, *y = b;
    size_t shared = x->text.count < y->text.count ? x->text.count : y->text.count;
    int order = memcmp(x->text.bytes, y->text.bytes, shared);
    if (order != 0)
        return order;
    if (x->text.count != y->text.count)
        return x->text.count < y->text.count ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_findable(const vocabulary *words, int32_t id)
{
    return vocabulary_is_special(words, id) && vocabulary_token(words, id).count > 0;
}

qsa_status specials_init(specials *set, const vocabulary *words)
{
    size_t count = 0;
    memset(set, 0, sizeof *set);
    for (size_t i = 0; i < words->count; i++)
        count += is_findable(words, (int32_t)i);
    set->tokens = calloc(count + 1, sizeof *set->tokens);
    if (!set->tokens)
        return engine_fail(QSA_E_MEMORY, "no memory for %zu special tokens", count);
    for (size_t i = 0; i < words->count; i++) {
        if (!is_findable(words, (int32_t)i))
            continue;
        text_span text = vocabulary_token(words, (int32_t)i);
        set->tokens[set->count++] = (special_token){text, (int32_t)i, words->types[i] == TOKEN_CONTROL};
        set->begins[(unsigned char)text.bytes[0]] = true;
    }
    assert(set->count == count);
    qsort(set->tokens, set->count, sizeof *set->tokens, compare_tokens);
    return QSA_OK;
}

void specials_release(specials *set)
{
    free(set->tokens);
    memset(set, 0, sizeof *set);
}

/* Binary search: the first of tokens [low, high) whose byte at `depth` is at least `byte`. All of them are longer than
 * depth and share the bytes before it. */
static size_t lower_bound(const specials *set, size_t low, size_t high, size_t depth, unsigned byte)
{
    assert(low <= high && high <= set->count);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((unsigned char)set->tokens[middle].text.bytes[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_recognised(const special_token *token, tokenizer_specials recognised)
{
    return recognised == TOKENIZER_SPECIALS_ALL || !token->is_control;
}

/* The longest recognised token that is a prefix of text. Narrows [low, high) to the tokens that share its first `depth`
 * bytes. */
static const special_token *longest_at(const specials *set, tokenizer_specials recognised, const char *text,
                                       size_t count)
{
    const special_token *longest = NULL;
    size_t low = 0, high = set->count;
    for (size_t depth = 0; low < high; depth++) {
        /* Tokens that end here come first. Visited backwards, so the lowest id wins. */
        size_t longer = low;
        while (longer < high && set->tokens[longer].text.count == depth)
            longer++;
        for (size_t i = longer; i-- > low;)
            if (is_recognised(&set->tokens[i], recognised))
                longest = &set->tokens[i];
        low = longer;
        if (depth == count)
            break;
        unsigned byte = (unsigned char)text[depth];
        low = lower_bound(set, low, high, depth, byte);
        high = lower_bound(set, low, high, depth, byte + 1);
    }
    return longest;
}

const special_token *specials_find(const specials *set, tokenizer_specials recognised, text_span text, size_t from,
                                   size_t *out_at)
{
    assert(from <= text.count && out_at != NULL);
    if (recognised == TOKENIZER_SPECIALS_NONE)
        return NULL;
    for (size_t at = from; at < text.count; at++) {
        if (!set->begins[(unsigned char)text.bytes[at]])
            continue;
        const special_token *token = longest_at(set, recognised, text.bytes + at, text.count - at);
        if (token) {
            *out_at = at;
            return token;
        }
    }
    return NULL;
}
