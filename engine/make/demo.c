/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's demo: the quoter model in the user's cache folder, and ledgers with questions. */
#define _POSIX_C_SOURCE 200809L

#include "make/ledger.h"
#include "make/quoter.h"

#include "base/cache_folder.h"
#include "base/error.h"

#include <assert.h>
#include <qsa_engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const char *const TYPE_NAMES[QUOTER_TYPE_COUNT] = {
    [QUOTER_F32] = "f32",   [QUOTER_BF16] = "bf16", [QUOTER_Q8_0] = "q8_0",
    [QUOTER_Q4_K] = "q4_k", [QUOTER_Q6_K] = "q6_k",
};

/* The path of the demo model for this version and these options. The caller frees it. */
static qsa_status make_path(const quoter_options *options, char **out_path)
{
    assert((unsigned)options->type < QUOTER_TYPE_COUNT);
    char name[64];
    snprintf(name, sizeof name, "quoter-%d-%s.gguf", (int)QUOTER_VERSION, TYPE_NAMES[options->type]);
    return cache_folder_path(name, out_path);
}

/* Whether the file exists and has the right hash. A damaged one (full disk, power failure) is written again. */
static bool is_intact(const char *path)
{
    enum { PIECE_BYTES = 1 << 16 };
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    FILE *file = fopen(path, "rb");
    XXH3_state_t *state = XXH3_createState();
    char *piece = malloc(PIECE_BYTES);
    bool intact = file && state && piece && XXH3_64bits_reset(state) == XXH_OK;
    for (size_t n; intact && (n = fread(piece, 1, PIECE_BYTES, file)) > 0;)
        XXH3_64bits_update(state, piece, n);
    intact = intact && !ferror(file) && XXH3_64bits_digest(state) == QUOTER_DEFAULT_HASH;
    free(piece);
    XXH3_freeState(state);
    if (file)
        fclose(file);
    return intact;
}

qsa_status qsa_demo_model(void (*announce)(void *user, const char *path), void *user, char **out_path)
{
    quoter_options options;
    quoter_options_init(&options);
    char *path = NULL;
    qsa_status status = make_path(&options, &path);
    if (!path)
        return status;
    if (!is_intact(path)) {
        if (announce)
            announce(user, path);
        status = cache_folder_make(path);
        if (status == QSA_OK)
            status = quoter_write(path, &options);
    }
    if (status == QSA_OK)
        *out_path = path;
    else
        free(path);
    return status;
}

static void copy_questions(const ledger_question *from, qsa_question *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(to[i].question, sizeof to[i].question, "%s", from[i].prompt);
        snprintf(to[i].expected, sizeof to[i].expected, "%s", from[i].answer);
    }
}

qsa_status qsa_demo_ledger(uint64_t seed, size_t tokens, char **out_text, qsa_question *questions, size_t n)
{
    quoter_options options;
    quoter_options_init(&options);
    if (n > LEDGER_MAX_BYTES / LEDGER_LINE_BYTES)
        return engine_fail(QSA_E_ARGUMENT, "ledger: %zu questions, more than any ledger has lines", n);
    char *text = NULL;
    ledger_question *asked = malloc((n + 1) * sizeof *asked);
    qsa_status status = asked ? QSA_OK : engine_fail(QSA_E_MEMORY, "ledger: no memory for %zu questions", n);
    if (status == QSA_OK)
        status = ledger_create(seed, tokens, &text);
    if (status == QSA_OK)
        status = ledger_ask(text, tokens, quoter_context_bytes(&options), seed, n, asked);
    if (status == QSA_OK) {
        copy_questions(asked, questions, n);
        *out_text = text;
    } else {
        free(text);
    }
    free(asked);
    return status;
}
