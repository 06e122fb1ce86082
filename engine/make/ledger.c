/* SPDX-License-Identifier: Apache-2.0 */
#include "make/ledger.h"

#include "base/error.h"
#include "base/random.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VAULTS = 10000,
    CODES = 100000000,
    PROMPT_BYTES = 32,
    ANSWER_BYTES = LEDGER_LINE_BYTES - PROMPT_BYTES - 1, /* up to and with the full stop */
};

enum { STREAM_VAULTS, STREAM_CODES, STREAM_QUESTIONS };

/* The numbers 0 .. n-1 in random order; NULL: no memory. */
static uint32_t *shuffle(uint64_t seed, uint64_t stream, size_t n)
{
    uint32_t *order = malloc((n + 1) * sizeof *order);
    if (!order)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)random_below(seed, stream, i, i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    return order;
}

qsa_status ledger_create(uint64_t seed, size_t size_bytes, char **out_text)
{
    if (size_bytes == 0 || size_bytes > LEDGER_MAX_BYTES)
        return engine_fail(QSA_E_ARGUMENT, "ledger: %zu bytes, expected 1 to %d", size_bytes, (int)LEDGER_MAX_BYTES);
    size_t lines = (size_bytes + LEDGER_LINE_BYTES - 1) / LEDGER_LINE_BYTES;
    uint32_t *vaults = shuffle(seed, STREAM_VAULTS, VAULTS);
    char *text = malloc(lines * LEDGER_LINE_BYTES + 1);
    if (!vaults || !text) {
        free(vaults);
        free(text);
        return engine_fail(QSA_E_MEMORY, "ledger: no memory for %zu bytes", size_bytes);
    }
    for (size_t i = 0; i < lines; i++)
        snprintf(text + i * LEDGER_LINE_BYTES, LEDGER_LINE_BYTES + 1, "The access code of vault %04u is %08u.\n",
                 (unsigned)vaults[i], (unsigned)random_below(seed, STREAM_CODES, i, CODES));
    free(vaults);
    text[size_bytes] = 0;
    *out_text = text;
    return QSA_OK;
}

/* How often the context_bytes bytes before `at` occur in the text, followed by at least one byte. */
static size_t count_context(const char *text, size_t size_bytes, const char *at, uint32_t context_bytes)
{
    assert(at - text >= (ptrdiff_t)context_bytes && at < text + size_bytes);
    size_t found = 0;
    const char *context = at - context_bytes;
    for (const char *p = text; p + context_bytes < text + size_bytes; p++)
        if (*p == *context && memcmp(p, context, context_bytes) == 0)
            found++;
    return found;
}

/* Whether the context before each byte of this line's answer occurs only once. */
static bool is_unambiguous(const char *text, size_t size_bytes, size_t line, uint32_t context_bytes)
{
    assert((line + 1) * LEDGER_LINE_BYTES <= size_bytes);
    const char *answer = text + line * LEDGER_LINE_BYTES + PROMPT_BYTES;
    for (size_t i = 0; i < ANSWER_BYTES; i++)
        if (count_context(text, size_bytes, answer + i, context_bytes) != 1)
            return false;
    return true;
}

static bool is_ledger(const char *text, size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        if (memcmp(text + i * LEDGER_LINE_BYTES, "The access code of vault ", 25) != 0 ||
            text[(i + 1) * LEDGER_LINE_BYTES - 1] != '\n')
            return false;
    return true;
}

static void make_question(const char *line, ledger_question *out)
{
    _Static_assert(PROMPT_BYTES < sizeof out->prompt && ANSWER_BYTES < sizeof out->answer, "terminators");
    memset(out, 0, sizeof *out);
    memcpy(out->prompt, line, PROMPT_BYTES);
    memcpy(out->answer, line + PROMPT_BYTES, ANSWER_BYTES);
}

qsa_status ledger_ask(const char *text, size_t size_bytes, uint32_t context_bytes, uint64_t seed, size_t n,
                      ledger_question *out_questions)
{
    assert(text != NULL && (out_questions != NULL || n == 0));
    size_t lines = size_bytes / LEDGER_LINE_BYTES;
    if (context_bytes == 0 || context_bytes > PROMPT_BYTES)
        return engine_fail(QSA_E_ARGUMENT, "ledger: a context of %u bytes, expected 1 to %d", (unsigned)context_bytes,
                           (int)PROMPT_BYTES);
    if (!is_ledger(text, lines))
        return engine_fail(QSA_E_ARGUMENT, "ledger: the text is not a ledger");
    uint32_t *order = shuffle(seed, STREAM_QUESTIONS, lines);
    if (!order)
        return engine_fail(QSA_E_MEMORY, "ledger: no memory for %zu lines", lines);
    size_t asked = 0;
    for (size_t i = 0; i < lines && asked < n; i++)
        if (is_unambiguous(text, size_bytes, order[i], context_bytes))
            order[asked++] = order[i];
    if (asked == n)
        for (size_t i = 0; i < n; i++)
            make_question(text + (size_t)order[i] * LEDGER_LINE_BYTES, &out_questions[i]);
    free(order);
    if (asked < n)
        return engine_fail(
            QSA_E_ARGUMENT,
            "ledger: %zu questions need as many lines, and %zu tokens have %zu; take more tokens or fewer questions", n,
            size_bytes, asked);
    return QSA_OK;
}
