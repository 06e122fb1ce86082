/* SPDX-License-Identifier: Apache-2.0 */
/* Verified drafts: a step carries one token that is certain and four that were guessed; `keep` says at commit how many
 * of them turned out right. K, V and index take back the others together; the next token goes to the next position. */
#include "made_up.h"

enum { GUESSES = 4, TOKENS = 300 };

/* The text to be written, and a draft model that guesses two of three tokens right. */
static uint32_t right_token(uint32_t position)
{
    return position * 7 + 1;
}

static uint32_t guessed_token(uint32_t position)
{
    return position % 3 == 2 ? 99 : right_token(position);
}

/* One step of n tokens at `position`; the first is right, the others are guessed. */
static void run_layers(qsa_step *step, const qsa_config *config, made_up *tokens, uint32_t position, uint32_t n)
{
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        for (uint32_t t = 0; t < n; t++)
            made_up_token(tokens, t, layer, t == 0 ? right_token(position) : guessed_token(position + t));
        must(qsa_step_layer(step, layer, &tokens->tensors, &tokens->out));
    }
}

static qsa_cache *new_cache(const qsa_config *config, qsa_seq *out_seq)
{
    qsa_cache *cache;
    must(qsa_cache_create(config, &cache));
    must(qsa_seq_open(cache, out_seq));
    return cache;
}

static uint64_t digest_of(qsa_cache *cache, qsa_seq seq)
{
    uint64_t digest;
    must(qsa_seq_digest(cache, seq, &digest));
    return digest;
}

/* Token by token, without any draft. */
static uint64_t plain(const qsa_config *config, made_up *tokens)
{
    qsa_seq seq;
    qsa_cache *cache = new_cache(config, &seq);
    for (uint32_t position = 0; position < TOKENS; position++) {
        const qsa_entry entry = {.seq = seq, .position = position, .tokens = 1};
        qsa_step *step;
        must(qsa_step_begin(cache, &entry, 1, &step));
        run_layers(step, config, tokens, position, 1);
        must(qsa_step_commit(step, NULL));
    }
    uint64_t digest = digest_of(cache, seq);
    qsa_cache_destroy(cache);
    return digest;
}

int main(void)
{
    const qsa_config config = small_shape();
    made_up tokens = made_up_open(&config, 1 + GUESSES);
    qsa_seq seq;
    qsa_cache *cache = new_cache(&config, &seq);
    uint32_t steps = 0;
    for (uint32_t position = 0; position < TOKENS; steps++) {
        uint32_t n = 1 + GUESSES < TOKENS - position ? 1 + GUESSES : TOKENS - position, keep = 1;
        const qsa_entry entry = {.seq = seq, .position = position, .tokens = n};
        qsa_step *step;
        must(qsa_step_begin(cache, &entry, 1, &step));
        run_layers(step, &config, &tokens, position, n);
        while (keep < n && guessed_token(position + keep) == right_token(position + keep)) /* what the model says */
            keep++;
        must(qsa_step_commit(step, &keep));
        position += keep;
    }
    bool same = digest_of(cache, seq) == plain(&config, &tokens);
    printf("%d tokens in %u steps; the state is %s\n", TOKENS, steps,
           same ? "that of a run without drafts" : "not that of a run without drafts");
    qsa_cache_destroy(cache);
    made_up_close(&tokens);
    return same ? 0 : 1;
}
