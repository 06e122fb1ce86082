/* SPDX-License-Identifier: Apache-2.0 */
#include "text/ends.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Files of fine-tuned models often name one end and use another. The three of fill-in-the-middle end what is filled
 * in. Each counts only as a special token: the same text spelled by ordinary tokens is text. */
static const char *const known[] = {"<|endoftext|>", "<|im_end|>",      "<|end|>",       "<|eot_id|>",
                                    "<|eom_id|>",    "<|end_of_text|>", "<end_of_turn>", "<EOT>",
                                    "<|fim_pad|>",   "<|repo_name|>",   "<|file_sep|>"};

static bool is_known(const vocabulary *words, int32_t id)
{
    const text_span text = vocabulary_token(words, id);
    if (!vocabulary_is_special(words, id))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (text.count == strlen(known[i]) && memcmp(text.bytes, known[i], text.count) == 0)
            return true;
    return false;
}

static bool is_named(const tokenizer_input *input, int32_t id)
{
    if (input->has_eos && input->eos == id)
        return true;
    for (size_t i = 0; i < input->end_count; i++)
        if (input->ends[i] == id)
            return true;
    return false;
}

static qsa_status check_ids(const vocabulary *words, const tokenizer_input *input)
{
    for (size_t i = 0; i < input->end_count; i++)
        if (input->ends[i] < 0 || (size_t)input->ends[i] >= words->count)
            return engine_fail(QSA_E_FORMAT, "end token %d is outside the vocabulary of %zu", (int)input->ends[i],
                               words->count);
    return QSA_OK;
}

qsa_status end_set_init(end_set *set, const vocabulary *words, const tokenizer_input *input)
{
    *set = (end_set){0};
    ENGINE_TRY(check_ids(words, input));
    for (int pass = 0; pass < 2; pass++) { /* counts, then fills */
        size_t n = 0;
        for (size_t i = 0; i < words->count; i++) {
            if (!is_named(input, (int32_t)i) && !is_known(words, (int32_t)i))
                continue;
            if (pass == 1)
                set->ids[n] = (int32_t)i;
            n++;
        }
        if (pass == 0)
            set->ids = calloc(n + 1, sizeof *set->ids);
        if (!set->ids)
            return engine_fail(QSA_E_MEMORY, "no memory for %zu end tokens", n);
        set->count = n;
    }
    return QSA_OK;
}

void end_set_release(end_set *set)
{
    free(set->ids);
    *set = (end_set){0};
}
