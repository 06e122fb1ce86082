/* SPDX-License-Identifier: Apache-2.0 */
/* Several answers to one prompt: a fork each. Here they differ by their first token, as if it had been sampled; each is
 * what it would have been alone. */
#include "toy.h"

enum { PROMPT = 290, ANSWERS = 4, TEXT = 30 };

int main(void)
{
    qsa_seq prompt_seq, answers[ANSWERS], again;
    qsa_cache *cache = toy_open(4096, &prompt_seq);
    uint32_t prompt[PROMPT], next[ANSWERS], text[ANSWERS][TEXT], alone[TEXT];
    toy_count(300, PROMPT, prompt);
    uint32_t likeliest = toy_feed(cache, prompt_seq, prompt, PROMPT);
    for (uint32_t i = 0; i < ANSWERS; i++) {
        must(qsa_seq_fork(cache, prompt_seq, PROMPT, &answers[i]));
        next[i] = likeliest + i;
    }
    for (uint32_t t = 0; t < TEXT; t++)
        for (uint32_t i = 0; i < ANSWERS; i++)
            next[i] = toy_decode(cache, answers[i], next[i], 1, &text[i][t]);

    int failures = 0;
    for (uint32_t i = 0; i < ANSWERS; i++) {
        must(qsa_seq_copy(cache, prompt_seq,
                          &again)); /* with pages of its own: nothing that the others wrote can show */
        toy_decode(cache, again, likeliest + i, TEXT, alone);
        failures += memcmp(alone, text[i], sizeof alone) != 0;
        must(qsa_seq_close(cache, again));
    }
    printf("%d answers of %d tokens, %d differ from what they are alone\n", ANSWERS, TEXT, failures);
    qsa_cache_destroy(cache);
    return failures;
}
