/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tokenizer_keys.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A string array of the file as spans; the caller frees *out_spans with free(). */
static qsa_status read_spans(const gguf_file *file, const char *key, text_span **out_spans, size_t *out_n)
{
    size_t n = 0;
    ENGINE_TRY(gguf_file_length(file, key, &n));
    const char **strings = calloc(n + 1, sizeof *strings);
    text_span *spans = calloc(n + 1, sizeof *spans);
    if (strings == NULL || spans == NULL) {
        free(strings);
        free(spans);
        return engine_fail(QSA_E_MEMORY, "no memory for the %zu strings of %s", n, key);
    }
    const qsa_status status = gguf_file_strings(file, key, strings, n);
    for (size_t i = 0; status == QSA_OK && i < n; i++)
        spans[i] = (text_span){strings[i], strlen(strings[i])};
    free(strings);
    if (status != QSA_OK) {
        free(spans);
        return status;
    }
    *out_spans = spans;
    *out_n = n;
    return QSA_OK;
}

static qsa_status read_types(const gguf_file *file, size_t n, int32_t **out_types)
{
    const char *key = "tokenizer.ggml.token_type";
    *out_types = NULL;
    if (!gguf_file_has(file, key))
        return QSA_OK;
    int32_t *types = calloc(n + 1, sizeof *types);
    if (types == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for %zu token types", n);
    const qsa_status status = gguf_file_i32s(file, key, types, n);
    if (status != QSA_OK) {
        free(types);
        return status;
    }
    *out_types = types;
    return QSA_OK;
}

static qsa_status read_end_token(const gguf_file *file, const char *key, bool *out_has, int32_t *out_id)
{
    *out_has = gguf_file_has(file, key);
    if (!*out_has)
        return QSA_OK;
    uint32_t id = 0;
    ENGINE_TRY(gguf_file_u32(file, key, &id));
    if (id > INT32_MAX)
        return engine_fail(QSA_E_FORMAT, "%s is %u, which is no token", key, id);
    *out_id = (int32_t)id;
    return QSA_OK;
}

/* Keys of tokens that end a text beside the end of text: end of turn, of message, and of what is filled in. */
static const char *const end_keys[] = {
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
};

enum { END_KEYS = sizeof end_keys / sizeof end_keys[0] };

static qsa_status read_ends(const gguf_file *file, tokenizer_input *input, int32_t ends[END_KEYS])
{
    input->ends = ends;
    for (size_t i = 0; i < END_KEYS; i++) {
        bool has = false;
        ENGINE_TRY(read_end_token(file, end_keys[i], &has, &ends[input->end_count]));
        input->end_count += has;
    }
    ENGINE_TRY(read_end_token(file, "tokenizer.ggml.bos_token_id", &input->has_bos, &input->bos));
    ENGINE_TRY(read_end_token(file, "tokenizer.ggml.eos_token_id", &input->has_eos, &input->eos));
    if (gguf_file_has(file, "tokenizer.ggml.add_bos_token"))
        ENGINE_TRY(gguf_file_bool(file, "tokenizer.ggml.add_bos_token", &input->add_bos));
    if (gguf_file_has(file, "tokenizer.ggml.add_eos_token"))
        ENGINE_TRY(gguf_file_bool(file, "tokenizer.ggml.add_eos_token", &input->add_eos));
    return QSA_OK;
}

static qsa_status check_model(const gguf_file *file)
{
    const char *model = NULL;
    ENGINE_TRY(gguf_file_string(file, "tokenizer.ggml.model", &model));
    if (strcmp(model, "gpt2") != 0) {
        return engine_fail(QSA_E_UNSUPPORTED, "tokenizer.ggml.model is \"%.40s\", supported is gpt2 (byte-level BPE)",
                           model);
    }
    return QSA_OK;
}

static qsa_status create(const gguf_file *file, uint32_t vocabulary, const text_span *tokens, size_t token_count,
                         tokenizer_input *input, tokenizer **out_tokenizer)
{
    if (token_count > vocabulary) {
        return engine_fail(QSA_E_FORMAT, "tokenizer.ggml.tokens has %zu tokens, but token_embd.weight has %u rows",
                           token_count, vocabulary);
    }
    int32_t *types = NULL, ends[END_KEYS];
    text_span *merges = NULL;
    qsa_status status = read_types(file, token_count, &types);
    if (status == QSA_OK)
        status = read_spans(file, "tokenizer.ggml.merges", &merges, &input->merge_count);
    if (status == QSA_OK)
        status = read_ends(file, input, ends);
    if (status == QSA_OK) {
        input->tokens = tokens;
        input->token_count = token_count;
        input->types = types;
        input->merges = merges;
        status = tokenizer_create(input, out_tokenizer);
    }
    free(types);
    free(merges);
    return status;
}

qsa_status tokenizer_from_keys(const gguf_file *file, uint32_t vocabulary, tokenizer **out_tokenizer,
                               const char **out_pre)
{
    tokenizer_input input = {0};
    text_span *tokens = NULL;
    size_t token_count = 0;
    ENGINE_TRY(check_model(file));
    ENGINE_TRY(gguf_file_string(file, "tokenizer.ggml.pre", &input.pre));
    ENGINE_TRY(read_spans(file, "tokenizer.ggml.tokens", &tokens, &token_count));
    const qsa_status status = create(file, vocabulary, tokens, token_count, &input, out_tokenizer);
    free(tokens);
    if (status == QSA_OK)
        *out_pre = input.pre;
    return status;
}
