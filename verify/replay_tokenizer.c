/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizer cases, with the tokenizer of the folder's first model file: text to tokens, with special tokens recognised
 * and as plain text, and tokens back to bytes. */
#include "console/memory.h"
#include "console/utf8.h"
#include "verify/replay.h"

#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool engine_ok(report *r, qsa_status status)
{
    if (status != QSA_OK)
        report_differ(r, "%s: %s", qsa_status_name(status), qsa_engine_error());
    return status == QSA_OK;
}

static qsa_model *open_model(const golden_folder *folder, report *r)
{
    const char *name = NULL;
    for (size_t i = 0; !name && i < folder->count; i++) {
        const char *dot = strrchr(folder->files[i], '.');
        name = dot && strcmp(dot, ".gguf") == 0 ? folder->files[i] : NULL;
    }
    if (!name) {
        report_skip(r, "the folder has no model file");
        return NULL;
    }
    const size_t size = strlen(folder->path) + strlen(name) + 2;
    char *path = memory_new(size, 1);
    snprintf(path, size, "%s/%s", folder->path, name);
    qsa_model *model = NULL;
    engine_ok(r, qsa_model_open(path, NULL, &model));
    free(path);
    return model;
}

/* The words of a key as tokens. Free with free(). */
static int32_t *read_tokens(const golden_record *record, const char *key, size_t *out_n, golden_error *error)
{
    *out_n = golden_words(record, key);
    int32_t *tokens = memory_new(*out_n, sizeof *tokens);
    for (size_t i = 0; i < *out_n; i++)
        tokens[i] = (int32_t)golden_integer_within(record, key, i, 0, INT32_MAX, error);
    return tokens;
}

static void compare_encoding(const qsa_model *model, const golden_record *record, const char *key,
                             qsa_specials specials, report *r)
{
    golden_error error = {{0}};
    size_t n_expected, n_found, n_text;
    int32_t *expected = read_tokens(record, key, &n_expected, &error), *found = NULL;
    const char *text = golden_text(record, "text", &n_text, &error);
    char what[64];
    snprintf(what, sizeof what, "%s of case", key);
    if (error.text[0])
        report_differ(r, "%s", error.text);
    else if (engine_ok(r, qsa_model_encode(model, text, n_text, specials, &found, &n_found)))
        report_numbers(r, what, strtoull(golden_record_name(record), NULL, 10), (const uint32_t *)expected, n_expected,
                       (const uint32_t *)found, n_found);
    free(expected);
    free(found);
}

/* The bytes of the tokens of key `ids`; NULL after reporting an error. Free with free(). */
static char *decode(const qsa_model *model, const golden_record *record, size_t *out_n, report *r)
{
    golden_error error = {{0}};
    size_t n, capacity = 0;
    int32_t *tokens = read_tokens(record, "ids", &n, &error);
    char *bytes = memory_grow(NULL, &capacity, 1, 1);
    bool is_good = true;
    *out_n = 0;
    for (size_t i = 0; is_good && i < n; i++) {
        const char *token;
        size_t size;
        is_good = engine_ok(r, qsa_model_token_bytes(model, tokens[i], &token, &size));
        if (is_good) {
            bytes = memory_grow(bytes, &capacity, *out_n + size, 1);
            memcpy(bytes + *out_n, token, size);
            *out_n += size;
        }
    }
    free(tokens);
    if (error.text[0])
        report_differ(r, "%s", error.text);
    if (is_good && !error.text[0])
        return bytes;
    free(bytes);
    return NULL;
}

static void compare_bytes(const golden_record *record, const char *key, const char *found, size_t n, report *r)
{
    golden_error error = {{0}};
    size_t n_expected;
    const char *expected = golden_text(record, key, &n_expected, &error);
    if (error.text[0])
        report_differ(r, "%s", error.text);
    else
        report_same(r, n == n_expected && memcmp(expected, found, n) == 0,
                    "%s %s: its tokens are not the bytes of '%s'", golden_record_type(record),
                    golden_record_name(record), key);
}

static void replay_text(const qsa_model *model, const golden_record *record, report *r)
{
    compare_encoding(model, record, "ids", QSA_SPECIALS_ALL, r);
    const bool differs = golden_has(record, "ids_specials_as_text");
    compare_encoding(model, record, differs ? "ids_specials_as_text" : "ids", QSA_SPECIALS_USER_DEFINED, r);
    size_t n;
    char *bytes = decode(model, record, &n, r);
    if (bytes)
        compare_bytes(record, golden_has(record, "decoded") ? "decoded" : "text", bytes, n, r);
    free(bytes);
}

/* Tokens that may split a character: their bytes in hexadecimal, and the text with broken characters replaced. */
static void replay_piece(const qsa_model *model, const golden_record *record, report *r)
{
    golden_error error = {{0}};
    size_t n, n_text;
    char *bytes = decode(model, record, &n, r);
    const char *expected = golden_word(record, "bytes", 0, &error);
    if (bytes && expected) {
        char *hex = memory_new(2 * n + 1, 1), *text = utf8_lossy(bytes, n, &n_text);
        for (size_t i = 0; i < n; i++)
            snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
        report_same(r, strcmp(hex, expected) == 0, "piece %s: expected bytes %s, found %s", golden_record_name(record),
                    expected, hex);
        compare_bytes(record, "decoded", text, n_text, r);
        free(hex);
        free(text);
    }
    if (error.text[0])
        report_differ(r, "%s", error.text);
    free(bytes);
}

void replay_tokenizer(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)file;
    qsa_model *model = open_model(folder, r);
    for (size_t i = 0; model && i < golden_record_count(golden); i++) {
        const golden_record *record = golden_record_at(golden, i);
        if (strcmp(golden_record_type(record), "piece") == 0)
            replay_piece(model, record, r);
        else
            replay_text(model, record, r);
    }
    qsa_model_close(model);
}
