/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix sharing: requests that begin alike pay for the common part once, of any length, and hold its pages once. */
#include "toy.h"

enum { PREFIX = 301, OWN = 9, REQUESTS = 3, TEXT = 20 }; /* 301: in the middle of a group */

/* The same request without sharing. */
static void alone(const uint32_t *prompt, uint32_t *text)
{
    qsa_seq seq;
    qsa_cache *cache = toy_open(1024, &seq);
    toy_decode(cache, seq, toy_feed(cache, seq, prompt, PREFIX + OWN), TEXT, text);
    qsa_cache_destroy(cache);
}

int main(void)
{
    qsa_seq prefix, seq;
    qsa_cache *cache = toy_open(1024, &prefix);
    uint32_t prompt[PREFIX + OWN], text[TEXT], expected[TEXT];
    int failures = 0;
    toy_count(1, PREFIX, prompt);
    toy_feed(cache, prefix, prompt, PREFIX);
    for (uint32_t request = 0; request < REQUESTS; request++) {
        toy_count(5000 + 100 * request, OWN, prompt + PREFIX);
        must(qsa_seq_fork(cache, prefix, PREFIX, &seq));
        toy_decode(cache, seq, toy_feed(cache, seq, prompt + PREFIX, OWN), TEXT, text);
        alone(prompt, expected);
        failures += memcmp(text, expected, sizeof text) != 0;
    }
    qsa_counters counters;
    must(qsa_cache_counters(cache, &counters));
    printf("%d requests over %d common tokens: %llu tokens fed, %llu pages copied\n", REQUESTS, PREFIX,
           (unsigned long long)counters.tokens, (unsigned long long)counters.pages_copied);
    failures += counters.tokens != PREFIX + REQUESTS * (OWN + TEXT); /* the prefix once */
    failures += counters.pages_copied != REQUESTS;                   /* its last page, where a request writes into it */
    qsa_cache_destroy(cache);
    return failures;
}
