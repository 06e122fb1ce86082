/* SPDX-License-Identifier: Apache-2.0 */
/* A toy that writes: the next token follows from the bits of the attention output, so that any difference anywhere
 * gives another text. */
#ifndef TOY_H
#define TOY_H

#include "made_up.h"

#include <string.h>

/* The token that follows, from one token's output of the last layer. */
static inline uint32_t toy_next(const float *out, uint32_t width)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < width; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        hash = (hash ^ bits) * 16777619u;
    }
    return hash >> 12;
}

/* Feeds n tokens in one step; returns the token that follows. */
static inline uint32_t toy_feed(qsa_cache *cache, qsa_seq seq, const uint32_t *ids, uint32_t n)
{
    qsa_config config;
    qsa_seq_info info;
    qsa_step *step;
    must(qsa_cache_config(cache, &config));
    must(qsa_seq_query(cache, seq, &info));
    made_up tokens = made_up_open(&config, n);
    const qsa_entry entry = {.seq = seq, .position = info.frontier, .tokens = n};
    must(qsa_step_begin(cache, &entry, 1, &step));
    for (uint32_t layer = 0; layer < config.layers; layer++) {
        for (uint32_t t = 0; t < n; t++)
            made_up_token(&tokens, t, layer, ids[t]);
        must(qsa_step_layer(step, layer, &tokens.tensors, &tokens.out));
    }
    must(qsa_step_commit(step, NULL));
    uint32_t next = toy_next(tokens.out.data + (n - 1) * tokens.row, config.q_heads * config.head_dim);
    made_up_close(&tokens);
    return next;
}

/* Decodes n tokens, the first of which is `next`; returns the one after them. */
static inline uint32_t toy_decode(qsa_cache *cache, qsa_seq seq, uint32_t next, uint32_t n, uint32_t *out_ids)
{
    for (uint32_t i = 0; i < n; i++) {
        out_ids[i] = next;
        next = toy_feed(cache, seq, &next, 1);
    }
    return next;
}

/* ids[i] = first + i */
static inline void toy_count(uint32_t first, uint32_t n, uint32_t *out_ids)
{
    for (uint32_t i = 0; i < n; i++)
        out_ids[i] = first + i;
}

/* A cache of the small shape for a few sequences, and its first sequence. */
static inline qsa_cache *toy_open(uint64_t capacity_tokens, qsa_seq *out_seq)
{
    qsa_config config = small_shape();
    qsa_cache *cache;
    config.capacity_tokens = capacity_tokens;
    config.max_sequences = 8;
    must(qsa_cache_create(&config, &cache));
    must(qsa_seq_open(cache, out_seq));
    return cache;
}

#endif
