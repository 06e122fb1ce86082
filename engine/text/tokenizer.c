/* SPDX-License-Identifier: Apache-2.0 */
#include "text/tokenizer.h"

#include "base/error.h"
#include "text/ends.h"
#include "text/list.h"
#include "text/merges.h"
#include "text/nfc.h"
#include "text/pieces.h"
#include "text/specials.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer {
    vocabulary words;
    merge_table merges;
    specials special;
    pre_tokenizer *pre;
    end_set ends;
    bool has_bos, has_eos, add_bos, add_eos;
    int32_t bos, eos;
};

/* ---- create and destroy ---- */

static qsa_status check_end_token(const char *name, bool has, int32_t id, size_t count)
{
    if (has && (id < 0 || (size_t)id >= count))
        return engine_fail(QSA_E_FORMAT, "%s token %d is outside the vocabulary of %zu", name, (int)id, count);
    return QSA_OK;
}

static qsa_status read_ends(tokenizer *tokens, const tokenizer_input *input)
{
    ENGINE_TRY(check_end_token("bos", input->has_bos, input->bos, input->token_count));
    ENGINE_TRY(check_end_token("eos", input->has_eos, input->eos, input->token_count));
    if (input->add_bos && !input->has_bos)
        return engine_fail(QSA_E_FORMAT, "add_bos is set but there is no bos token");
    if (input->add_eos && !input->has_eos)
        return engine_fail(QSA_E_FORMAT, "add_eos is set but there is no eos token");
    tokens->has_bos = input->has_bos;
    tokens->has_eos = input->has_eos;
    tokens->add_bos = input->add_bos;
    tokens->add_eos = input->add_eos;
    tokens->bos = input->bos;
    tokens->eos = input->eos;
    return end_set_init(&tokens->ends, &tokens->words, input);
}

static qsa_status fill(tokenizer *tokens, const tokenizer_input *input)
{
    ENGINE_TRY(pre_tokenizer_create(input->pre, &tokens->pre));
    ENGINE_TRY(vocabulary_init(&tokens->words, input));
    ENGINE_TRY(merge_table_init(&tokens->merges, &tokens->words, input));
    ENGINE_TRY(specials_init(&tokens->special, &tokens->words));
    return read_ends(tokens, input);
}

qsa_status tokenizer_create(const tokenizer_input *input, tokenizer **out_tokenizer)
{
    assert(input != NULL && out_tokenizer != NULL);
    tokenizer *tokens = calloc(1, sizeof *tokens);
    if (!tokens)
        return engine_fail(QSA_E_MEMORY, "no memory for a tokenizer");
    qsa_status status = fill(tokens, input);
    if (status != QSA_OK) {
        tokenizer_destroy(tokens);
        return status;
    }
    *out_tokenizer = tokens;
    return QSA_OK;
}

void tokenizer_destroy(tokenizer *tokens)
{
    if (!tokens)
        return;
    end_set_release(&tokens->ends);
    specials_release(&tokens->special);
    merge_table_release(&tokens->merges);
    vocabulary_release(&tokens->words);
    pre_tokenizer_destroy(tokens->pre);
    free(tokens);
}

size_t tokenizer_count(const tokenizer *tokens)
{
    return tokens->words.count;
}

size_t tokenizer_longest_bytes(const tokenizer *tokens)
{
    return tokens->words.longest_bytes;
}

bool tokenizer_begins_with(const tokenizer *tokens, int32_t *out_id)
{
    if (!tokens->add_bos)
        return false;
    *out_id = tokens->bos;
    return true;
}

bool tokenizer_closes_with(const tokenizer *tokens, int32_t *out_id)
{
    if (!tokens->add_eos)
        return false;
    *out_id = tokens->eos;
    return true;
}

const int32_t *tokenizer_ends(const tokenizer *tokens, size_t *out_count)
{
    *out_count = tokens->ends.count;
    return tokens->ends.ids;
}

bool tokenizer_is_control(const tokenizer *tokens, int32_t id)
{
    return id >= 0 && (size_t)id < tokens->words.count && tokens->words.types[id] == TOKEN_CONTROL;
}

bool tokenizer_ends_with(const tokenizer *tokens, int32_t *out_id)
{
    if (!tokens->has_eos)
        return false;
    *out_id = tokens->eos;
    return true;
}

/* ---- encoding ---- */

/* Scratch memory of one call. */
typedef struct encoding {
    const tokenizer *tokens;
    piece_matcher *matcher;
    nfc_work nfc;
    merge_work merge;
    byte_list normal; /* the current stretch, normalised */
    id_list ids;
} encoding;

static qsa_status encode_piece(encoding *work, text_span piece)
{
    assert(piece.count > 0);
    return merge_piece(&work->tokens->merges, &work->tokens->words, &work->merge, piece, &work->ids);
}

/* Valid UTF-8 without special tokens. */
static qsa_status encode_stretch(encoding *work, text_span stretch)
{
    work->normal.count = 0;
    ENGINE_TRY(nfc_append(&work->nfc, stretch.bytes, stretch.count, &work->normal));
    const text_span normal = {work->normal.items, work->normal.count};
    for (size_t begin = 0, end = 0; begin < normal.count; begin = end) {
        ENGINE_TRY(piece_matcher_next(work->matcher, normal, begin, &end));
        ENGINE_TRY(encode_piece(work, (text_span){normal.bytes + begin, end - begin}));
    }
    return QSA_OK;
}

/* Length of the maximal run of valid characters, or of invalid bytes, at `begin`. */
static size_t run_bytes(text_span text, size_t begin, bool *out_valid)
{
    assert(begin < text.count);
    size_t length;
    size_t end = begin;
    bool valid = utf8_scan(text.bytes + begin, text.count - begin, &length) == UTF8_VALID;
    *out_valid = valid;
    do
        end += length;
    while (end < text.count && (utf8_scan(text.bytes + end, text.count - end, &length) == UTF8_VALID) == valid);
    return end - begin;
}

/* Text without special tokens. */
static qsa_status encode_plain(encoding *work, text_span text)
{
    for (size_t begin = 0, length = 0; begin < text.count; begin += length) {
        bool valid;
        length = run_bytes(text, begin, &valid);
        const text_span run = {text.bytes + begin, length};
        ENGINE_TRY(valid ? encode_stretch(work, run) : encode_piece(work, run));
    }
    return QSA_OK;
}

static qsa_status encode_all(encoding *work, text_span text, tokenizer_specials recognised)
{
    const specials *special = &work->tokens->special;
    for (size_t begin = 0; begin < text.count;) {
        size_t end = text.count;
        const special_token *token = specials_find(special, recognised, text, begin, &end);
        ENGINE_TRY(encode_plain(work, (text_span){text.bytes + begin, end - begin}));
        if (token)
            ENGINE_TRY(id_list_append(&work->ids, token->id));
        assert(begin <= end && end <= text.count);
        begin = token ? end + token->text.count : end;
    }
    return QSA_OK;
}

qsa_status tokenizer_encode(const tokenizer *tokens, const char *text, size_t count, tokenizer_specials recognised,
                            int32_t **out_ids, size_t *out_count)
{
    assert(tokens != NULL && (text != NULL || count == 0));
    if (count > TOKENIZER_MAX_TEXT_BYTES)
        return engine_fail(QSA_E_LIMIT, "text of %zu bytes; at most %d", count, TOKENIZER_MAX_TEXT_BYTES);
    encoding work = {.tokens = tokens};
    qsa_status status = piece_matcher_create(tokens->pre, &work.matcher);
    if (status == QSA_OK)
        status = id_list_reserve(&work.ids, 1); /* so that an empty result is not NULL */
    if (status == QSA_OK)
        status = encode_all(&work, (text_span){text, count}, recognised);
    piece_matcher_destroy(work.matcher);
    nfc_work_release(&work.nfc);
    merge_work_release(&work.merge);
    free(work.normal.items);
    if (status != QSA_OK) {
        free(work.ids.items);
        return status;
    }
    *out_ids = work.ids.items;
    *out_count = work.ids.count;
    return QSA_OK;
}

/* ---- decoding ---- */

static bool is_token(const tokenizer *tokens, int32_t id)
{
    return id >= 0 && (size_t)id < tokens->words.count;
}

qsa_status tokenizer_token_bytes(const tokenizer *tokens, int32_t id, const char **out_bytes, size_t *out_count)
{
    if (!is_token(tokens, id))
        return engine_fail(QSA_E_ARGUMENT, "token %d is outside the vocabulary of %zu", (int)id, tokens->words.count);
    text_span token = vocabulary_token(&tokens->words, id);
    *out_bytes = token.bytes;
    *out_count = token.count;
    return QSA_OK;
}

static qsa_status decode_all(const tokenizer *tokens, const int32_t *ids, size_t count, byte_list *out)
{
    ENGINE_TRY(byte_list_reserve(out, 1)); /* so that an empty result is not NULL */
    for (size_t i = 0; i < count; i++) {
        if (!is_token(tokens, ids[i])) {
            return engine_fail(QSA_E_ARGUMENT, "index %zu: token %d is outside the vocabulary of %zu", i, (int)ids[i],
                               tokens->words.count);
        }
        const text_span token = vocabulary_token(&tokens->words, ids[i]);
        ENGINE_TRY(byte_list_append(out, token.bytes, token.count));
    }
    return QSA_OK;
}

qsa_status tokenizer_decode(const tokenizer *tokens, const int32_t *ids, size_t count, char **out_bytes,
                            size_t *out_count)
{
    assert(ids != NULL || count == 0);
    byte_list text = {0};
    const qsa_status status = decode_all(tokens, ids, count, &text);
    if (status != QSA_OK) {
        free(text.items);
        return status;
    }
    *out_bytes = text.items;
    *out_count = text.count;
    return QSA_OK;
}
