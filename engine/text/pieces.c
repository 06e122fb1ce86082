/* SPDX-License-Identifier: Apache-2.0 */
#include "text/pieces.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Unicode's White_Space. PCRE2's \s also matches U+180E or, without UCP, only ASCII. */
#define LINE_END "\\r\\n"
#define SPACE                                                                                                          \
    LINE_END "\\t\\x0b\\x0c \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define LETTER "\\p{L}"
#define NUMBER "\\p{N}"

/* The alternatives, in order; WORD is the class of word characters:
 *   contractions; a word with up to one other character before it; one digit; punctuation with an optional space before
 *   it and line ends after it; white space through its last line end; white space but its last character, if more text
 *   follows; white space.
 * Possessive quantifiers (++, *+) match the same here, and prevent backtracking over a long piece. */
#define PATTERN(WORD)                                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)"                                                                                     \
    "|[^" LINE_END LETTER NUMBER "]?[" WORD "]++"                                                                      \
    "|" NUMBER "| ?[^" SPACE WORD NUMBER "]++[" LINE_END "]*+"                                                         \
    "|[" SPACE "]*[" LINE_END "]"                                                                                      \
    "|[" SPACE "]+(?![^" SPACE "])"                                                                                    \
    "|[" SPACE "]++"

static const struct {
    const char *kind, *pattern;
} KINDS[] = {
    {"qwen35", PATTERN(LETTER "\\p{M}")},
    {"qwen2", PATTERN(LETTER)},
};

struct pre_tokenizer {
    pcre2_code *code;
    pcre2_match_context *context;
};

struct piece_matcher {
    const pre_tokenizer *pre;
    pcre2_match_data *data;
};

static const char *find_pattern(const char *kind)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (kind && strcmp(kind, KINDS[i].kind) == 0)
            return KINDS[i].pattern;
    return NULL;
}

static qsa_status fail_pcre2(qsa_status status, const char *doing, int error, size_t at)
{
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(error, message, sizeof message);
    return engine_fail(status, "%s at byte %zu: %s", doing, at, (const char *)message);
}

static qsa_status compile(pre_tokenizer *pre, const char *pattern)
{
    int error;
    PCRE2_SIZE at;
    /* Anchored here, not per match: PCRE2 does not use JIT code if a match asks for anchoring. */
    pre->code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED, &error, &at, NULL);
    if (!pre->code)
        return fail_pcre2(error == PCRE2_ERROR_HEAP_FAILED ? QSA_E_MEMORY : QSA_E_UNSUPPORTED, "pre-tokenizer pattern",
                          error, at);
    /* The status is ignored: without JIT, matching is only slower. */
    pcre2_jit_compile(pre->code, PCRE2_JIT_COMPLETE);
    pre->context = pcre2_match_context_create(NULL);
    if (!pre->context)
        return engine_fail(QSA_E_MEMORY, "no memory for a pre-tokenizer");
    /* PCRE2's match limit guards against exponential time. These patterns are linear; the limit would only reject
     * pieces of more than ten million characters. */
    pcre2_set_match_limit(pre->context, UINT32_MAX);
    return QSA_OK;
}

qsa_status pre_tokenizer_create(const char *kind, pre_tokenizer **out_pre)
{
    const char *pattern = find_pattern(kind);
    if (!pattern)
        return engine_fail(QSA_E_UNSUPPORTED, "pre-tokenizer '%.64s' is not supported (qwen35 and qwen2 are)",
                           kind ? kind : "");
    pre_tokenizer *pre = calloc(1, sizeof *pre);
    if (!pre)
        return engine_fail(QSA_E_MEMORY, "no memory for a pre-tokenizer");
    qsa_status status = compile(pre, pattern);
    if (status != QSA_OK) {
        pre_tokenizer_destroy(pre);
        return status;
    }
    *out_pre = pre;
    return QSA_OK;
}

void pre_tokenizer_destroy(pre_tokenizer *pre)
{
    if (!pre)
        return;
    pcre2_match_context_free(pre->context);
    pcre2_code_free(pre->code);
    free(pre);
}

qsa_status piece_matcher_create(const pre_tokenizer *pre, piece_matcher **out_matcher)
{
    assert(pre != NULL && pre->code != NULL);
    piece_matcher *matcher = calloc(1, sizeof *matcher);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!matcher || !data) {
        free(matcher);
        pcre2_match_data_free(data);
        return engine_fail(QSA_E_MEMORY, "no memory to split text into pieces");
    }
    *matcher = (piece_matcher){pre, data};
    *out_matcher = matcher;
    return QSA_OK;
}

void piece_matcher_destroy(piece_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_match_data_free(matcher->data);
    free(matcher);
}

qsa_status piece_matcher_next(piece_matcher *matcher, text_span text, size_t begin, size_t *out_end)
{
    assert(begin < text.count);
    /* The text is known to be valid UTF-8; checking it again for each piece would take quadratic time. */
    int found = pcre2_match(matcher->pre->code, (PCRE2_SPTR)text.bytes, text.count, begin, PCRE2_NO_UTF_CHECK,
                            matcher->data, matcher->pre->context);
    if (found < 0)
        return fail_pcre2(found == PCRE2_ERROR_NOMEMORY ? QSA_E_MEMORY : QSA_E_LIMIT, "splitting text into pieces",
                          found, begin);
    *out_end = pcre2_get_ovector_pointer(matcher->data)[1];
    assert(*out_end > begin && *out_end <= text.count);
    return QSA_OK;
}
