/* Snapshots in the middle of a life. */
#include "life_model.h"
#include "mini.h"

#include <stdlib.h>
#include <string.h>

enum { MODEL = 7 };

/* Some of the open sequences, or all, in any order. */
static uint32_t choose(life *l, bool all, walker *out[LIFE_SEQUENCES], qsa_seq seqs[LIFE_SEQUENCES])
{
    uint32_t n = 0, from = life_below(l, l->rules.sequences);
    for (uint32_t i = 0; i < l->rules.sequences; i++) {
        walker *one = &l->walkers[(from + i) % l->rules.sequences];
        if (one->open && (all || life_below(l, 2))) {
            out[n] = one;
            seqs[n++] = one->seq;
        }
    }
    return n;
}

static mini_bytes written(const life *l, const qsa_seq *seqs, uint32_t n)
{
    mini_bytes bytes = {0};
    const qsa_writer writer = mini_writer(&bytes);
    const qsa_section section = {1, &n, sizeof n};
    life_expect(l, "write", qsa_snapshot_write(l->cache, seqs, n, &section, 1, MODEL, &writer) == QSA_OK);
    return bytes;
}

static qsa_status read_back(life *l, mini_bytes *bytes, qsa_snapshot *out)
{
    const qsa_reader reader = mini_reader(bytes);
    return qsa_snapshot_read(l->cache, MODEL, &reader, out);
}

static void expect_same_bytes(const life *l, const mini_bytes *first, const qsa_seq *seqs, uint32_t n)
{
    mini_bytes again = written(l, seqs, n);
    life_expect(l, "saved, loaded, saved gives other bytes",
                again.size == first->size && memcmp(again.data, first->data, again.size) == 0);
    mini_free(&again);
}

/* The life goes on in a fresh cache. */
void life_hand_over(life *l)
{
    walker *who[LIFE_SEQUENCES];
    qsa_seq seqs[LIFE_SEQUENCES];
    uint32_t n = choose(l, true, who, seqs);
    mini_bytes bytes = written(l, seqs, n);
    uint64_t free_tokens = qsa_cache_free_tokens(l->cache);
    qsa_cache_destroy(l->cache);
    l->cache = world_create(&l->rules.config);
    qsa_snapshot snapshot;
    life_expect(l, "read", read_back(l, &bytes, &snapshot) == QSA_OK && snapshot.n_sequences == n);
    for (uint32_t i = 0; i < n; i++)
        who[i]->seq = snapshot.sequences[i];
    life_expect(l, "shared pages stay shared", qsa_cache_free_tokens(l->cache) == free_tokens);
    expect_same_bytes(l, &bytes, snapshot.sequences, n);
    qsa_snapshot_free(&snapshot);
    mini_free(&bytes);
}

static walker *vacant(life *l)
{
    for (uint32_t i = 0; i < l->rules.sequences; i++)
        if (!l->walkers[i].open)
            return &l->walkers[i];
    return NULL;
}

static void close_some(life *l)
{
    for (uint32_t i = 0; i < l->rules.sequences; i++)
        if (l->walkers[i].open && life_below(l, 3) == 0)
            life_close(l, &l->walkers[i]);
}

/* Some sequences come back beside themselves and live on as copies. */
void life_restore_beside(life *l)
{
    walker *who[LIFE_SEQUENCES];
    qsa_seq seqs[LIFE_SEQUENCES];
    close_some(l);
    uint32_t n = choose(l, false, who, seqs), places = 0;
    for (uint32_t i = 0; i < l->rules.sequences; i++)
        places += !l->walkers[i].open;
    mini_bytes bytes = written(l, seqs, n);
    qsa_snapshot snapshot;
    qsa_status status = read_back(l, &bytes, &snapshot);
    life_expect(l, "read beside", status == QSA_OK || status == QSA_E_FULL);
    life_expect(l, "too many sequences", n <= places || status == QSA_E_FULL);
    if (status == QSA_OK) {
        expect_same_bytes(l, &bytes, snapshot.sequences, n);
        for (uint32_t i = 0; i < n; i++)
            walker_clone(who[i], who[i]->n, snapshot.sequences[i], vacant(l));
        qsa_snapshot_free(&snapshot);
    }
    mini_free(&bytes);
}

/* One bit is wrong, or the end is missing. */
void life_damaged_snapshot(life *l)
{
    walker *who[LIFE_SEQUENCES];
    qsa_seq seqs[LIFE_SEQUENCES];
    uint32_t n = choose(l, false, who, seqs);
    mini_bytes bytes = written(l, seqs, n);
    if (life_below(l, 2))
        bytes.data[life_below(l, (uint32_t)bytes.size)] ^= (uint8_t)(1u << life_below(l, 8));
    else
        bytes.size = life_below(l, (uint32_t)bytes.size);
    qsa_snapshot snapshot;
    life_expect(l, "a damaged snapshot is read", read_back(l, &bytes, &snapshot) != QSA_OK);
    mini_free(&bytes);
}
