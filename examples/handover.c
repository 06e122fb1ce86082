/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence handed from one cache to another, as from a machine that prefills to one that decodes: a snapshot in
 * memory, with the host's own state in a section. The bytes could as well go through a pipe, or into a file
 * (qsa_snapshot_save). */
#include "toy.h"

enum { PROMPT = 330, TEXT = 40, MODEL = 2026 };

typedef struct buffer {
    unsigned char bytes[1 << 20];
    size_t used, read;
} buffer;

static qsa_status put(void *context, const void *bytes, size_t size)
{
    buffer *b = context;
    if (size > sizeof b->bytes - b->used)
        return QSA_E_IO;
    memcpy(b->bytes + b->used, bytes, size);
    b->used += size;
    return QSA_OK;
}

static qsa_status take(void *context, void *bytes, size_t size)
{
    buffer *b = context;
    if (size > b->used - b->read)
        return QSA_E_FORMAT;
    memcpy(bytes, b->bytes + b->read, size);
    b->read += size;
    return QSA_OK;
}

/* Prefills, writes the snapshot, and decodes on, to say what should come. */
static void prefill(buffer *b, uint32_t *expected)
{
    qsa_seq seq;
    qsa_cache *cache = toy_open(1024, &seq);
    uint32_t prompt[PROMPT];
    toy_count(50, PROMPT, prompt);
    uint32_t next = toy_feed(cache, seq, prompt, PROMPT);
    const qsa_section state = {.tag = 1, .data = &next, .size_bytes = sizeof next};
    const qsa_writer writer = {put, b};
    must(qsa_snapshot_write(cache, &seq, 1, &state, 1, MODEL, &writer));
    toy_decode(cache, seq, next, TEXT, expected);
    qsa_cache_destroy(cache);
}

int main(void)
{
    static buffer b;
    uint32_t expected[TEXT], text[TEXT], next;
    prefill(&b, expected);

    qsa_seq other;
    qsa_cache *cache = toy_open(2048, &other); /* another size, and another sequence in it */
    toy_feed(cache, other, expected, TEXT);
    qsa_snapshot snapshot;
    const qsa_reader reader = {take, &b};
    must(qsa_snapshot_read(cache, MODEL, &reader, &snapshot));
    memcpy(&next, snapshot.sections[0].data, sizeof next);
    toy_decode(cache, snapshot.sequences[0], next, TEXT, text);
    qsa_snapshot_free(&snapshot);
    qsa_cache_destroy(cache);
    printf("%zu bytes handed over\n", b.used);
    return memcmp(text, expected, sizeof text) != 0;
}
