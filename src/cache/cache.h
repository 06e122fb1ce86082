/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's state.
 *
 * Invariants. qsa_cache_check verifies them, except 4, which defines how 2 and 3 are read, and 5, of which
 * qsa_seq_verify_index verifies that pooled keys follow from raw keys:
 *  1. A page is free (reference count 0, exactly once on the free stack) or referred to by as many open sequences (and
 *     the open step) as its count says.
 *  2. An open sequence has 0 <= anchor <= frontier <= 2^31, first_slot < 64 and a multiple of the ratio.
 *  3. It refers to exactly the pages that its tokens need: ceil((first_slot + tokens) / 64), none if it is empty.
 *  4. The token at position p is in slot first_slot + (p - anchor). Groups are cut from the anchor, so no group
 *     straddles pages.
 *  5. K, V, raw keys and triples of [anchor, frontier) and the pooled keys of all complete groups are valid in every
 *     layer. One commit makes them valid together. Nothing else is ever read.
 *  6. A closed sequence has no pages, and no live handle has its generation.
 *  7. A table chunk is free (reference count 0, exactly once on the free stack) or in the directories of as many
 *     sequences as its count says. Only a chunk with count 1 is written.
 *  8. The pages of one sequence are distinct, so it never has more pages than the cache.
 *  9. A page has the same index within its chunk in every table: a sequence with pages has
 *     first_entry = (anchor - frame - first_slot) / 64 mod 128. So sequences that share pages can share chunks, also
 *     after a restore (ADR 9). */
#ifndef QSA_CACHE_CACHE_H
#define QSA_CACHE_CACHE_H

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

#include <assert.h>
#include <qsa/cache.h>

typedef struct qsa_sequence {
    int64_t anchor, frontier, frame;
    uint64_t window; /* tokens; 0: none */
    qsa_table table;
    uint32_t generation;
    uint32_t first_slot;  /* of the run, in its first page */
    uint32_t first_entry; /* of the table: index of the first page in the first chunk */
    uint32_t n_pages;
    bool open;
    bool placed; /* the anchor is fixed */
} qsa_sequence;

struct qsa_cache {
    qsa_layout layout; /* with the configuration */
    qsa_allocator allocator;
    qsa_rotary rotary;

    float *weights;      /* [layers]: q, k [head_dim], index_q, index_k [index_dim] */
    qsa_store *store;    /* the pages, on the cache's device */
    qsa_triple *triples; /* [pages][64], relative to the frame; always in host memory */

    uint32_t *references; /* [pages] */
    uint32_t *free_pages; /* [pages] stack */
    uint32_t n_free;

    qsa_sequence *sequences; /* [max_sequences] */
    uint32_t *directories;   /* [max_sequences + 1][qsa_directory_limit] */
    uint32_t *spare;         /* the unused directory: for a table under construction */

    uint32_t n_chunks;          /* qsa_chunks_limit */
    uint32_t *chunk_entries;    /* [n_chunks][QSA_CHUNK_PAGES]; every entry, written or not, is a valid page number */
    uint32_t *chunk_references; /* [n_chunks] */
    uint32_t *free_chunks;      /* [n_chunks] stack */
    uint32_t n_free_chunks;
    uint32_t *chunk_of; /* [pages] a chunk that may hold the page; only a hint */

    uint32_t *page_map;  /* [2 * pages] scratch of compact and copy */
    uint32_t *counts;    /* [max(pages, n_chunks)] scratch of qsa_cache_check */
    float *page_cos_sin; /* [page_groups][2 * pairs] scratch of qsa_page_pool */

    void *step_memory;     /* carved and used by src/step alone */
    uint64_t carved_bytes; /* of the allocation that begins with this struct */
    bool step_open;
    bool calls_host; /* an operation runs that calls the host: its writer, reader or allocator */

    qsa_counters counters;
    qsa_work work;
};

/* ---- life; qsa_plan_memory and qsa_cache_create are in src/step, which knows what a step needs ---- */

/* Carves the scratch of a step; NULL while measuring. config passed qsa_shape_check. */
typedef void *(*qsa_carve_step)(qsa_carve *carve, const qsa_config *config);

/* qsa_plan_memory and qsa_cache_create, with carve_step; out is not NULL. */
qsa_status qsa_cache_plan(const qsa_config *config, qsa_carve_step carve_step, qsa_memory_plan *out);
qsa_status qsa_cache_make(const qsa_config *config, qsa_carve_step carve_step, qsa_cache **out);

/* Every verb ends here: debug builds assert the invariants. Returns status. */
static inline qsa_status qsa_cache_settled(const qsa_cache *cache, qsa_status status)
{
    assert(qsa_cache_check(cache) == QSA_OK);
    (void)cache;
    return status;
}

/* ---- pages ---- */

/* Takes a free page, reference count 1. The caller has checked n_free. */
uint32_t qsa_page_take(qsa_cache *cache);
/* Drops one reference; the page becomes free with the last. */
void qsa_page_drop(qsa_cache *cache, uint32_t page);
/* Copies a page, all layers and arenas. If the device fails, the content of `to` is undefined. */
qsa_status qsa_page_copy(qsa_cache *cache, uint32_t from, uint32_t to);
/* Exchanges the contents and reference counts of two pages. A device that fails has exchanged nothing, unless it is
 * lost, and its pages with it. */
qsa_status qsa_page_swap(qsa_cache *cache, uint32_t a, uint32_t b);
/* Copies n consecutive slots within pages, all layers: K, V, raw key, triple. */
qsa_status qsa_slots_copy(qsa_cache *cache, qsa_place from, qsa_place to, uint32_t n);
/* Pools n consecutive groups of one page from its raw keys and triples, all layers. */
qsa_status qsa_page_pool(qsa_cache *cache, qsa_place first, uint32_t n);
/* A view of a page of one layer and arena in host memory (device.h). */
qsa_status qsa_page_view(const qsa_cache *cache, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out);
/* cos and sin [2 * pairs] of the token at a place. */
void qsa_page_cos_sin(const qsa_cache *cache, qsa_place place, float *out);

/* Pages that `slots` slots take from the start of a page. */
static inline uint64_t qsa_pages_for(uint64_t slots)
{
    return (slots + QSA_PAGE_TOKENS - 1) / QSA_PAGE_TOKENS;
}

/* ---- sequences ---- */

/* QSA_E_SEQUENCE if seq is not an open sequence. */
qsa_status qsa_sequence_find(const qsa_cache *cache, qsa_seq seq, qsa_sequence **out);
/* The same, after qsa_cache_idle. */
qsa_status qsa_sequence_find_idle(const qsa_cache *cache, qsa_seq seq, qsa_sequence **out);
/* QSA_E_BUSY while a step is open or an operation runs that calls the host. */
qsa_status qsa_cache_idle(const qsa_cache *cache);
/* Around an idle cache's operations that call the host: whatever the callback tries is QSA_E_BUSY. */
void qsa_cache_hold(const qsa_cache *cache);
void qsa_cache_release(const qsa_cache *cache);
/* QSA_E_FULL unless `n` more sequences can be opened. */
qsa_status qsa_sequence_check_vacant(const qsa_cache *cache, uint32_t n);
/* Opens an empty sequence. Errors: QSA_E_FULL (max_sequences). */
qsa_status qsa_sequence_open(qsa_cache *cache, qsa_seq *out);
/* Drops its pages and closes it. */
void qsa_sequence_close(qsa_cache *cache, qsa_sequence *sequence);
/* Opens a complete sequence: run, frame and window as in `model`. Its pages are those of `pages` in order, or, if that
 * is NULL, the first ones of the model's own table. Each page gets one more reference, so a caller that took a page
 * drops its own. Errors: QSA_E_FULL, and nothing has changed. */
qsa_status qsa_sequence_adopt(qsa_cache *cache, const qsa_sequence *model, const uint32_t *pages, qsa_seq *out);
/* Drops the pages behind those that `tokens` tokens need. */
void qsa_sequence_trim(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens);
/* anchor += tokens, a multiple of the ratio; drops the pages before it. */
void qsa_sequence_drop_front(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens);

static inline uint64_t qsa_sequence_tokens(const qsa_sequence *sequence)
{
    return (uint64_t)(sequence->frontier - sequence->anchor);
}

/* Pages that its tokens need. */
static inline uint32_t qsa_sequence_pages(const qsa_sequence *sequence)
{
    const uint64_t tokens = qsa_sequence_tokens(sequence);
    return tokens == 0 ? 0 : (uint32_t)qsa_pages_for(sequence->first_slot + tokens);
}

/* Page number i of the sequence, in its table. */
static inline uint32_t *qsa_sequence_page(const qsa_sequence *sequence, uint64_t i)
{
    assert(sequence->table.chunks != NULL && sequence->first_entry < QSA_CHUNK_PAGES);
    return qsa_table_at(&sequence->table, sequence->first_entry + i);
}

/* Chunks that hold its first n pages. */
static inline uint32_t qsa_sequence_chunks(const qsa_sequence *sequence, uint32_t n)
{
    return n == 0 ? 0 : (uint32_t)(((uint64_t)sequence->first_entry + n - 1) / QSA_CHUNK_PAGES + 1);
}

/* The run's first slot, counted from the start of the table. */
static inline uint32_t qsa_sequence_first_slot(const qsa_sequence *sequence)
{
    return sequence->first_entry * QSA_PAGE_TOKENS + sequence->first_slot;
}

/* The place of token number `offset` of the run. */
static inline qsa_place qsa_sequence_place(const qsa_sequence *sequence, uint64_t offset)
{
    return qsa_table_place(&sequence->table, qsa_sequence_first_slot(sequence) + offset);
}

/* ---- page tables ---- */

/* first_entry of a sequence (invariant 9). */
uint32_t qsa_table_first_entry(int64_t anchor, int64_t frame, uint32_t first_slot);
/* Chunks to take before entries [first, first + n) of the sequence's pages can be written; first <= n_pages. */
uint32_t qsa_table_need(const qsa_cache *cache, const qsa_sequence *sequence, uint32_t first, uint32_t n);
/* QSA_E_FULL unless `need` chunks are free. */
qsa_status qsa_table_check_free(const qsa_cache *cache, const char *verb, uint64_t need);
/* Takes the chunks that qsa_table_need counts, and copies shared ones. Cannot fail: the caller has checked the need. */
void qsa_table_prepare(qsa_cache *cache, qsa_sequence *sequence, uint32_t first, uint32_t n);
/* Drops all but the first n pages, and their chunks. */
void qsa_table_shrink(qsa_cache *cache, qsa_sequence *sequence, uint32_t n);
/* Drops the first n pages, but not all pages, and their chunks. */
void qsa_table_drop_front(qsa_cache *cache, qsa_sequence *sequence, uint32_t n);
/* Gives a sequence without pages the first n pages of another; they share chunks. */
void qsa_table_share(qsa_cache *cache, qsa_sequence *sequence, const qsa_sequence *from, uint32_t n);
/* The same for a list of pages. Shares chunks that already hold them. Errors: QSA_E_FULL; n_pages then says how many
 * pages got a reference. */
qsa_status qsa_table_fill(qsa_cache *cache, qsa_sequence *sequence, const uint32_t *pages, uint32_t n_pages);
/* Renumbers page i to new_names[i] in every table. */
void qsa_tables_rename(qsa_cache *cache, const uint32_t *new_names);

/* ---- values ---- */

static inline enum qsa_arena qsa_tensor_arena(qsa_tensor tensor)
{
    static const enum qsa_arena arenas[] = {QSA_ARENA_KV, QSA_ARENA_KV, QSA_ARENA_RAW, QSA_ARENA_POOLED};
    _Static_assert(QSA_TENSOR_K == 0 && QSA_TENSOR_V == 1 && QSA_TENSOR_RAW == 2 && QSA_TENSOR_POOLED == 3, "arenas");
    assert((unsigned)tensor < QSA_TENSOR_COUNT);
    return arenas[tensor];
}

static inline qsa_triple *qsa_triple_at(const qsa_cache *cache, qsa_place place)
{
    assert(place.page < cache->layout.pages && place.slot < QSA_PAGE_TOKENS);
    return &cache->triples[(size_t)place.page * QSA_PAGE_TOKENS + place.slot];
}

#endif
