/* SPDX-License-Identifier: Apache-2.0 */
/* The library in thirty lines: a prompt in chunks, then one token that attends to the best of it. */
#include "made_up.h"

enum { PROMPT = 1000, CHUNK = 250 };

int main(void)
{
    qsa_config config = small_shape();
    qsa_cache *cache;
    qsa_seq seq;
    qsa_counters counters;
    must(qsa_cache_create(&config, &cache));
    must(qsa_seq_open(cache, &seq));
    made_up tokens = made_up_open(&config, CHUNK);
    for (uint32_t at = 0; at <= PROMPT; at += CHUNK) {
        uint32_t n = at < PROMPT ? CHUNK : 1; /* at the end a single token */
        const qsa_entry entry = {.seq = seq, .position = at, .tokens = n};
        qsa_step *step;
        must(qsa_step_begin(cache, &entry, 1, &step));
        for (uint32_t layer = 0; layer < config.layers; layer++) {
            for (uint32_t t = 0; t < n; t++)
                made_up_token(&tokens, t, layer, at + t); /* a model computes q, k, v, index q and raw key here */
            must(qsa_step_layer(step, layer, &tokens.tensors, &tokens.out));
        }                                  /* and goes on with tokens.out here */
        must(qsa_step_commit(step, NULL)); /* from now on all of it is part of the sequence, or none */
    }
    uint32_t row = config.budget + (PROMPT + 1) % config.ratio;
    must(qsa_cache_counters(cache, &counters));
    printf("%d tokens stored; the last one attended to %u of them; %llu pooled keys\n", PROMPT + 1, row,
           (unsigned long long)counters.keys_pooled);
    made_up_close(&tokens);
    qsa_cache_destroy(cache);
    return 0;
}
