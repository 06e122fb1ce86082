/* SPDX-License-Identifier: Apache-2.0 */
/* Several sequences in the same steps: while one decodes token by token, the others bring their prompts in chunks.
 * Nobody notices the others: at the end each sequence has the state that it has alone. */
#include "made_up.h"

enum { SEQUENCES = 3, CHUNK = 100, LONGEST = 700 };

static const uint32_t lengths[SEQUENCES] = {450, 700, 90};

/* The id that decides what a token's projections are. */
static uint32_t token_id(uint32_t sequence, uint32_t position)
{
    return sequence * 100000 + position;
}

/* One step over the sequences of `entries`; who[e] says which one entry e is. */
static void run_step(qsa_cache *cache, const qsa_config *config, qsa_threads *threads, made_up *tokens,
                     const qsa_entry *entries, const uint32_t *who, uint32_t n)
{
    qsa_step *step;
    must(qsa_step_begin(cache, entries, n, &step));
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        uint32_t at = 0; /* tokens of a step are those of all entries in order */
        for (uint32_t e = 0; e < n; e++)
            for (uint32_t t = 0; t < entries[e].tokens; t++)
                made_up_token(tokens, at++, layer, token_id(who[e], (uint32_t)entries[e].position + t));
        must(qsa_threads_layer(threads, step, layer, &tokens->tensors, &tokens->out));
    }
    must(qsa_step_commit(step, NULL));
}

static uint64_t digest_of(qsa_cache *cache, qsa_seq seq)
{
    uint64_t digest;
    must(qsa_seq_digest(cache, seq, &digest));
    return digest;
}

/* What a sequence comes to when nobody else is there. */
static uint64_t alone(const qsa_config *config, qsa_threads *threads, made_up *tokens, uint32_t sequence)
{
    qsa_cache *cache;
    qsa_seq seq;
    must(qsa_cache_create(config, &cache));
    must(qsa_seq_open(cache, &seq));
    const qsa_entry entry = {.seq = seq, .position = 0, .tokens = lengths[sequence]};
    run_step(cache, config, threads, tokens, &entry, &sequence, 1);
    uint64_t digest = digest_of(cache, seq);
    qsa_cache_destroy(cache);
    return digest;
}

int main(void)
{
    qsa_config config = small_shape();
    config.max_sequences = SEQUENCES;
    config.max_step_tokens = LONGEST;
    qsa_cache *cache;
    qsa_threads *threads;
    qsa_seq seq[SEQUENCES];
    uint32_t fed[SEQUENCES] = {0}, steps = 0;
    must(qsa_cache_create(&config, &cache));
    must(qsa_threads_create(2, &threads));
    made_up tokens = made_up_open(&config, LONGEST);
    for (uint32_t s = 0; s < SEQUENCES; s++)
        must(qsa_seq_open(cache, &seq[s]));
    for (;; steps++) {
        qsa_entry entries[SEQUENCES];
        uint32_t who[SEQUENCES], n = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            uint32_t left = lengths[s] - fed[s], take = s == 0 && fed[s] >= 400 ? 1 : CHUNK; /* the first one decodes */
            take = take < left ? take : left;
            if (take == 0)
                continue;
            who[n] = s;
            entries[n++] = (qsa_entry){.seq = seq[s], .position = fed[s], .tokens = take};
            fed[s] += take;
        }
        if (n == 0)
            break;
        run_step(cache, &config, threads, &tokens, entries, who, n);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        bool same = digest_of(cache, seq[s]) == alone(&config, threads, &tokens, s);
        printf("sequence %u: %u tokens, %s\n", s, fed[s], same ? "as if alone" : "not what it is alone");
        if (!same)
            return 1;
    }
    printf("%u steps\n", steps);
    made_up_close(&tokens);
    qsa_threads_destroy(threads);
    qsa_cache_destroy(cache);
    return 0;
}
