/* SPDX-License-Identifier: Apache-2.0 */
/* A context that slides: a window keeps about the newest tokens, and the sequence runs on for ever in a few pages. The
 * same text comes out however the prompt was cut into chunks. */
#include "toy.h"

enum { WINDOW = 400, PROMPT = 500, TEXT = 1500 };

static void run(uint32_t chunk, uint32_t *text, qsa_seq_info *info)
{
    qsa_seq seq;
    qsa_cache *cache = toy_open(1024, &seq); /* half of what the text is long */
    uint32_t prompt[PROMPT], next = 0;
    must(qsa_seq_window(cache, seq, WINDOW));
    toy_count(7, PROMPT, prompt);
    for (uint32_t at = 0; at < PROMPT; at += chunk)
        next = toy_feed(cache, seq, prompt + at, PROMPT - at < chunk ? PROMPT - at : chunk);
    toy_decode(cache, seq, next, TEXT, text);
    must(qsa_seq_query(cache, seq, info));
    qsa_cache_destroy(cache);
}

int main(void)
{
    static uint32_t first[TEXT], second[TEXT];
    qsa_seq_info info;
    run(PROMPT, first, &info);
    run(7, second, &info);
    printf("positions [%lld, %lld) stored, %llu tokens in %llu pages\n", (long long)info.anchor,
           (long long)info.frontier, (unsigned long long)info.tokens, (unsigned long long)info.pages);
    return memcmp(first, second, sizeof first) != 0 || info.frontier != PROMPT + TEXT || info.tokens >= WINDOW;
}
