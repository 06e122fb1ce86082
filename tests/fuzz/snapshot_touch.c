/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot_touch.h"

#include "parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL = 42 };

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "snapshot: %s (%s)\n", what, qsa_error_detail());
    abort();
}

static mini_bytes save(const qsa_cache *cache, const qsa_seq *seqs, uint32_t n, const qsa_section *sections,
                       uint32_t n_sections)
{
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes);
    require(qsa_snapshot_write(cache, seqs, n, sections, n_sections, MODEL, &writer) == QSA_OK, "write");
    return bytes;
}

mini_bytes snapshot_seed(int seed)
{
    static const uint32_t tokens[SNAPSHOT_SEEDS] = {3, 13, 70, 0};
    const qsa_config config = mini_config();
    const qsa_section sections[2] = {{1, "state", 5}, {2, NULL, 0}};
    qsa_cache *cache = mini_create(&config);
    qsa_seq seqs[3];
    uint32_t n = 0;
    if (tokens[seed] > 0) {
        mini_ok(qsa_seq_open(cache, &seqs[n++]));
        mini_feed(cache, seqs[0], 5, tokens[seed], 1, NULL);
    }
    if (tokens[seed] > 64) {
        mini_ok(qsa_seq_fork(cache, seqs[0], 70, &seqs[n++]));
        mini_ok(qsa_seq_fork(cache, seqs[1], 71 - 5, &seqs[n++]));
        mini_ok(qsa_seq_evict(cache, seqs[1], 5 + 60));
        mini_ok(qsa_seq_window(cache, seqs[2], 9));
    }
    mini_bytes bytes = save(cache, seqs, n, sections, 2);
    qsa_cache_destroy(cache);
    return bytes;
}

/* What was read is written again; a snapshot of it is read once more and written: the same bytes. */
static void save_and_load(qsa_cache *cache, const qsa_snapshot *snapshot)
{
    mini_bytes first =
        save(cache, snapshot->sequences, snapshot->n_sequences, snapshot->sections, snapshot->n_sections);
    const qsa_config config = mini_config();
    qsa_cache *other = mini_create(&config);
    qsa_snapshot again;
    const qsa_reader reader = mini_reader(&first);
    require(qsa_snapshot_read(other, MODEL, &reader, &again) == QSA_OK, "read again");
    mini_bytes second = save(other, again.sequences, again.n_sequences, again.sections, again.n_sections);
    require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0, "saved again");
    qsa_snapshot_free(&again);
    qsa_cache_destroy(other);
    mini_free(&first);
    mini_free(&second);
}

/* Sequences that came out of a snapshot are sequences. */
static void live_on(qsa_cache *cache, const qsa_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->n_sequences; i++) {
        qsa_seq_info info;
        uint64_t digest;
        require(qsa_seq_query(cache, snapshot->sequences[i], &info) == QSA_OK, "query");
        require(qsa_seq_digest(cache, snapshot->sequences[i], &digest) == QSA_OK, "digest");
        (void)mini_try_feed(cache, snapshot->sequences[i], info.frontier, 2, 3, NULL); /* may be full, or too far */
        require(qsa_cache_check(cache) == QSA_OK, "invariants");
    }
    for (uint32_t i = 0; i < snapshot->n_sequences; i++)
        require(qsa_seq_close(cache, snapshot->sequences[i]) == QSA_OK, "close");
}

/* A cache with a live sequence. It serves all inputs, since none may leave a trace. */
static qsa_cache *victim(qsa_seq *out_seq)
{
    static qsa_cache *cache;
    static qsa_seq seq;
    if (cache == NULL) {
        const qsa_config config = mini_config();
        cache = mini_create(&config);
        mini_ok(qsa_seq_open(cache, &seq));
        mini_feed(cache, seq, 0, 13, 9, NULL);
    }
    *out_seq = seq;
    return cache;
}

static qsa_status touch(uint8_t *bytes, size_t size)
{
    qsa_seq seq;
    qsa_cache *cache = victim(&seq);
    const uint64_t state = mini_state(cache, &seq, 1);
    mini_bytes source = {.data = bytes, .size = size};
    qsa_reader reader = mini_reader(&source);
    qsa_snapshot snapshot;
    qsa_status status = qsa_snapshot_read(cache, MODEL, &reader, &snapshot);
    if (status == QSA_OK) {
        require(qsa_cache_check(cache) == QSA_OK, "invariants");
        save_and_load(cache, &snapshot);
        live_on(cache, &snapshot);
        qsa_snapshot_free(&snapshot);
    }
    require(mini_state(cache, &seq, 1) == state, "a trace is left");
    reader = mini_reader(&source);
    if (qsa_snapshot_inspect(&reader, &snapshot) == QSA_OK)
        qsa_snapshot_free(&snapshot);
    return status;
}

qsa_status snapshot_touch_bytes(const uint8_t *data, size_t size, bool sealed)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    require(copy != NULL, "memory");
    if (size > 0)
        memcpy(copy, data, size);
    if (sealed)
        parts_seal(copy, size);
    qsa_status status = touch(copy, size);
    free(copy);
    return status;
}
