/* A small cache (ratio 4, two groups kept: the cut is at 12 tokens) that is fed numbers of the golden generator. */
#ifndef MINI_H
#define MINI_H

#include <qsa/qsa.h>

typedef struct mini_bytes { /* bytes in memory, written and read like a file */
    uint8_t *data;
    size_t size, capacity, at;
} mini_bytes;

qsa_config mini_config(void);
qsa_cache *mini_create(const qsa_config *config);

/* Feeds n tokens at the frontier (or `position`, to a fresh sequence). Values depend on stream and position only. The
 * output of the last token goes to out [q_heads * head_dim], NULL: nowhere. */
void mini_feed(qsa_cache *cache, qsa_seq seq, int64_t position, uint32_t n, uint64_t stream, float *out);
qsa_status mini_try_feed(qsa_cache *cache, qsa_seq seq, int64_t position, uint32_t n, uint64_t stream, float *out);

uint64_t mini_digest(const qsa_cache *cache, qsa_seq seq);
/* Over all open handles of a list, and the free pages: the state that a failed call must leave. */
uint64_t mini_state(const qsa_cache *cache, const qsa_seq *sequences, size_t n);

qsa_writer mini_writer(mini_bytes *bytes);
qsa_reader mini_reader(mini_bytes *bytes);
void mini_free(mini_bytes *bytes);

void mini_ok(qsa_status status);

#endif
