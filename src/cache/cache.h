/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's state.
 *
 * Invariants. qsa_cache_check verifies them, but for 4, which says how 2 and 3 are read, and 5, of which
 * qsa_seq_verify_index verifies that pooled keys follow from raw keys:
 *  1. A page is free (reference count 0, exactly once on the free stack) or referred to by as many open sequences (and
 *     the open step) as its count says.
 *  2. An open sequence has 0 <= anchor <= frontier <= 2^31, first_slot < 64 and a multiple of the ratio.
 *  3. It refers to exactly the pages that its tokens need: ceil((first_slot + tokens) / 64), none if it is empty.
 *  4. Slot of the token at position p: first_slot + (p - anchor); groups are cut from the anchor, so a group never
 *     straddles pages.
 *  5. K, V, raw keys and triples of [anchor, frontier) and the pooled keys of all complete groups are valid in every
 *     layer; they were made valid by one commit, together. Nothing else is ever read.
 *  6. A closed sequence has no pages and a generation that no live handle carries.
 *  7. A page table lies within the sequence's own 2 * pages entries.
 *  8. The pages of one sequence are distinct; so it never has more than there are. */
#ifndef QSA_CACHE_CACHE_H
#define QSA_CACHE_CACHE_H

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

#include <qsa/cache.h>

typedef struct qsa_sequence {
    int64_t anchor, frontier, frame;
    uint32_t generation;
    uint32_t first_slot;
    uint32_t n_pages;
    bool open;
    bool placed;      /* the anchor is decided */
    uint64_t window;  /* tokens; 0: none */
    uint32_t *table;  /* page ids, the first n_pages are used; begins anywhere in `tables` */
    uint32_t *tables; /* [2 * layout.pages]: dropping pages in front moves `table` on, and seldom moves entries */
} qsa_sequence;

struct qsa_cache {
    qsa_config config; /* norms and allocator NULL */
    qsa_allocator allocator;
    qsa_layout layout;
    qsa_rotary rotary;

    float *weights;      /* [layers]: q, k [head_dim], index_q, index_k [index_dim] */
    qsa_store *store;    /* the pages, on whatever device */
    qsa_triple *triples; /* [pages][64], relative to the frame; always the host's */

    uint32_t *references; /* [pages] */
    uint32_t *free_pages; /* [pages] stack */
    uint32_t n_free;

    qsa_sequence *sequences; /* [max_sequences] */
    uint32_t *tables;        /* [max_sequences][2 * pages] */
    uint32_t *page_map;      /* [2 * pages] working memory of qsa_cache_compact */
    float *page_cos_sin;     /* [page_groups][2 * pairs] working memory of qsa_page_pool */

    void *step_memory;     /* carved and read by room step alone */
    uint64_t carved_bytes; /* of the allocation that begins with this struct */
    bool step_open;

    qsa_counters counters;
    qsa_work work;
};

/* ---- life; qsa_plan_memory and qsa_cache_create, which know what a step needs, stand above ---- */

/* Carves the working memory of a step; NULL while measuring. config passed qsa_shape_check. */
typedef void *(*qsa_carve_step)(qsa_carve *carve, const qsa_config *config);

/* As qsa_plan_memory and qsa_cache_create; out is not NULL. */
qsa_status qsa_cache_plan(const qsa_config *config, qsa_carve_step carve_step, qsa_memory_plan *out);
qsa_status qsa_cache_make(const qsa_config *config, qsa_carve_step carve_step, qsa_cache **out);

/* ---- pages ---- */

/* Takes a free page, reference count 1. The caller has checked n_free. */
uint32_t qsa_page_take(qsa_cache *cache);
/* Drops one reference; the page becomes free with the last. */
void qsa_page_drop(qsa_cache *cache, uint32_t page);
/* Copies a page, all layers and kinds. The device may fail; then `to` holds anything. */
qsa_status qsa_page_copy(qsa_cache *cache, uint32_t from, uint32_t to);
/* Exchanges the contents and reference counts of two pages. A device that fails has exchanged
 * nothing, unless it is lost and the pages with it. */
qsa_status qsa_page_swap(qsa_cache *cache, uint32_t a, uint32_t b);
/* Copies n consecutive slots within pages, all layers: K, V, raw key, triple. */
qsa_status qsa_slots_copy(qsa_cache *cache, qsa_place from, qsa_place to, uint32_t n);
/* Pools n consecutive groups of one page from its raw keys and triples, all layers. */
qsa_status qsa_page_pool(qsa_cache *cache, qsa_place first, uint32_t n);
/* A page of one layer and arena in host memory (device.h). */
qsa_status qsa_page_view(const qsa_cache *cache, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out);
/* cos and sin [2 * pairs] of the token at a place. */
void qsa_page_cos_sin(const qsa_cache *cache, qsa_place place, float *out);

/* Pages that `slots` slots from the beginning of a page need. */
static inline uint64_t qsa_pages_for(uint64_t slots)
{
    return (slots + QSA_PAGE_TOKENS - 1) / QSA_PAGE_TOKENS;
}

/* ---- sequences ---- */

/* QSA_E_SEQUENCE if seq is not an open sequence. */
qsa_status qsa_sequence_find(const qsa_cache *cache, qsa_seq seq, qsa_sequence **out);
/* QSA_E_BUSY while a step is open. */
qsa_status qsa_cache_idle(const qsa_cache *cache);
/* QSA_E_FULL unless `n` more sequences can be opened. */
qsa_status qsa_sequence_check_vacant(const qsa_cache *cache, uint32_t n);
/* Opens an empty sequence. Errors: QSA_E_FULL (max_sequences). */
qsa_status qsa_sequence_open(qsa_cache *cache, qsa_seq *out);
/* Drops its pages and closes it. */
void qsa_sequence_close(qsa_cache *cache, qsa_sequence *sequence);
/* Opens a complete sequence: run, frame and window as in `model`, and pages [n_pages of its tokens] in order, each of
 * which gets one reference more. Whoever took a page drops his own. Errors: QSA_E_FULL, and nothing has changed. */
qsa_status qsa_sequence_adopt(qsa_cache *cache, const qsa_sequence *model, const uint32_t *pages, qsa_seq *out);
/* Drops the pages beyond those that `tokens` tokens need. */
void qsa_sequence_trim(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens);
/* Makes room for `pages` table entries. Cannot fail: a table has twice the room that all pages need. */
void qsa_sequence_make_room(const qsa_cache *cache, qsa_sequence *sequence, uint64_t pages);
/* anchor += tokens, a multiple of the ratio; drops the pages in front. */
void qsa_sequence_drop_front(qsa_cache *cache, qsa_sequence *sequence, uint64_t tokens);

/* Pages that its tokens need. */
static inline uint32_t qsa_sequence_pages(const qsa_sequence *sequence)
{
    const uint64_t tokens = (uint64_t)(sequence->frontier - sequence->anchor);
    return tokens == 0 ? 0 : (uint32_t)qsa_pages_for(sequence->first_slot + tokens);
}

/* Where token number `offset` of the run lies. */
static inline qsa_place qsa_sequence_place(const qsa_sequence *sequence, uint64_t offset)
{
    uint64_t at = sequence->first_slot + offset;
    return (qsa_place){sequence->table[at / QSA_PAGE_TOKENS], (uint32_t)(at % QSA_PAGE_TOKENS)};
}

static inline qsa_triple *qsa_triple_at(const qsa_cache *cache, qsa_place place)
{
    return &cache->triples[(size_t)place.page * QSA_PAGE_TOKENS + place.slot];
}

#endif
