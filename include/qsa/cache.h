/* SPDX-License-Identifier: Apache-2.0 */
/* The cache: K, V and index of every QSA layer of any number of sequences.
 *
 * K/V and index move together, in one commit; nothing updates one alone. Sequences share one pool of pages of 64
 * tokens. Where a token lies is not visible outside; no result depends on it.
 *
 * Threads: a cache is used by one thread at a time, the phases of a step excepted (step.h). Different caches are
 * independent. */
#ifndef QSA_CACHE_H
#define QSA_CACHE_H

#include <qsa/config.h>
#include <qsa/run.h>

QSA_BEGIN_DECLS

typedef struct qsa_cache qsa_cache;

/* A sequence of one cache. A value; {0} is none. The handle of a closed sequence is refused, also after its place has
 * been taken by another. */
typedef struct qsa_seq {
    uint32_t slot;
    uint32_t generation;
} qsa_seq;

typedef struct qsa_seq_info {
    int64_t anchor;       /* position of the first stored token; 0 while empty */
    int64_t frontier;     /* position of the next token; 0 while empty and never fed */
    int64_t rotary_frame; /* F */
    uint64_t window;      /* tokens that it keeps; 0: all */
    uint64_t tokens;      /* frontier - anchor */
    uint64_t groups;      /* complete groups, tokens / ratio */
    uint64_t pages;       /* pages that it refers to */
} qsa_seq_info;

/* Work done since the cache was created; every figure counts all layers. */
typedef struct qsa_counters {
    uint64_t steps;                            /* committed */
    uint64_t tokens;                           /* appended and committed */
    uint64_t layouts;                          /* address computations of a step: one per step, not per layer */
    uint64_t keys_pooled;                      /* pooled keys computed */
    uint64_t groups_scored;                    /* (query, candidate group) pairs whose score was needed */
    uint64_t groups_chosen;                    /* of them, members */
    uint64_t k_rows_read;                      /* (query, kv head, token) K rows that entered attention; V likewise */
    uint64_t pages_taken;                      /* from the free list */
    uint64_t pages_copied;                     /* copy on write, and qsa_seq_copy */
    uint64_t bytes_uploaded, bytes_downloaded; /* to and from a device that is not the host */
    uint64_t launches;                         /* of its kernels */
} qsa_counters;

/* Creates an empty cache. The cache owns everything it allocates; config and the norm weights are copied.
 * Errors: QSA_E_ARGUMENT, QSA_E_LIMIT (shape), QSA_E_NONFINITE (norm weights, naming layer and tensor), QSA_E_MEMORY,
 * QSA_E_UNSUPPORTED (QSA_ISA names an instruction set that this processor or build lacks). */
QSA_API qsa_status qsa_cache_create(const qsa_config *config, qsa_cache **out_cache);

/* Frees the cache and everything in it; an open step is dropped. NULL is legal. */
QSA_API void qsa_cache_destroy(qsa_cache *cache);

/* The configuration it was created with; norms and allocator are NULL. */
QSA_API qsa_status qsa_cache_config(const qsa_cache *cache, qsa_config *out_config);
QSA_API qsa_status qsa_cache_counters(const qsa_cache *cache, qsa_counters *out_counters);

/* Tokens that could still be stored if all went to fresh pages: free pages * 64. */
QSA_API uint64_t qsa_cache_free_tokens(const qsa_cache *cache);

/* Name of the kernels in use: "scalar", "avx2", ... Chosen at create by the processor, pinned by QSA_ISA. */
QSA_API const char *qsa_cache_isa(const qsa_cache *cache);

/* Verifies the numbered invariants of src/cache; QSA_E_FORMAT naming the first that does not hold. O(pages). */
QSA_API qsa_status qsa_cache_check(const qsa_cache *cache);

/* ---- life of a sequence; during a step all of these but qsa_seq_query are QSA_E_BUSY ---- */

/* Opens an empty sequence. Its first step decides the anchor. Errors: QSA_E_FULL (max_sequences). */
QSA_API qsa_status qsa_seq_open(qsa_cache *cache, qsa_seq *out_seq);

/* Forgets the sequence and drops its pages. Errors: QSA_E_SEQUENCE. */
QSA_API qsa_status qsa_seq_close(qsa_cache *cache, qsa_seq seq);

QSA_API qsa_status qsa_seq_query(const qsa_cache *cache, qsa_seq seq, qsa_seq_info *out_info);

/* frontier = to; works inside a group, and to the anchor. A sequence rewound to its anchor keeps it: its next token
 * has that position. O(freed pages). Errors: QSA_E_RANGE outside [anchor, frontier]. */
QSA_API qsa_status qsa_seq_rewind(qsa_cache *cache, qsa_seq seq, int64_t to);

/* anchor = upto. O(freed pages) if a multiple of the ratio is dropped, or everything; otherwise the groups are cut anew
 * from the new anchor: the run is packed into private pages and its pooled keys rebuilt from raw keys, O(bytes).
 * Errors: QSA_E_RANGE; to re-pack QSA_E_FULL (as many free pages as the rest of the run needs). */
QSA_API qsa_status qsa_seq_evict(qsa_cache *cache, qsa_seq seq, int64_t upto);

/* Takes out a span: a prefix as evict, a suffix (or everything) as rewind; an empty span changes nothing.
 * Errors: QSA_E_HOLE for a span in the middle, naming both ends of the hole; QSA_E_RANGE; QSA_E_FULL as evict. */
QSA_API qsa_status qsa_seq_remove(qsa_cache *cache, qsa_seq seq, qsa_span span);

/* Moves every position, and the rotary frame with them, by delta: no byte moves, and every result stays what it was
 * (SPEC section 1). A sequence that was never fed moves its frame only. O(1).
 * Errors: QSA_E_RANGE (a position below 0 or above 2^31-1). */
QSA_API qsa_status qsa_seq_shift(qsa_cache *cache, qsa_seq seq, int64_t delta);

/* From now on keeps about the newest `tokens` tokens, by the rule of SPEC section 2 (per query, so chunking cannot
 * matter); pages are freed at commit. Any number of tokens larger than the run keeps everything. O(1). Errors:
 * QSA_E_ARGUMENT (below the ratio). */
QSA_API qsa_status qsa_seq_window(qsa_cache *cache, qsa_seq seq, uint64_t tokens);

/* A new sequence that shares [anchor, at) with this one, also inside a group; frame and window are inherited. No token
 * is copied until one side writes into a shared page. O(pages). Errors: QSA_E_RANGE; QSA_E_FULL (max_sequences). */
QSA_API qsa_status qsa_seq_fork(qsa_cache *cache, qsa_seq seq, int64_t at, qsa_seq *out_seq);

/* As fork at the frontier, but with pages of its own. O(bytes). Errors: QSA_E_FULL (pages or max_sequences). */
QSA_API qsa_status qsa_seq_copy(qsa_cache *cache, qsa_seq seq, qsa_seq *out_seq);

/* Moves pages so that every sequence lies in order from the front of the pool. Physical only: no result and no digest
 * changes. O(bytes moved). */
QSA_API qsa_status qsa_cache_compact(qsa_cache *cache);

/* ---- reading back, for tests, tools and hosts that store state themselves ---- */

typedef enum qsa_tensor {
    QSA_TENSOR_K = 0,  /* [tokens][kv_heads][head_dim] normed, rotated, rounded to storage */
    QSA_TENSOR_V,      /* [tokens][kv_heads][head_dim] */
    QSA_TENSOR_RAW,    /* [tokens][index_dim] */
    QSA_TENSOR_POOLED, /* [groups][index_dim]; span in positions, both ends on group boundaries from the anchor */
    QSA_TENSOR_COUNT
} qsa_tensor;

/* Copies committed values, widened to f32, of the positions in span. out has room for all of them.
 * Errors: QSA_E_RANGE (span outside the run, or not whole groups), QSA_E_ARGUMENT, QSA_E_SEQUENCE. */
QSA_API qsa_status qsa_seq_read(const qsa_cache *cache, qsa_seq seq, uint32_t layer, qsa_tensor tensor, qsa_span span,
                                float *out);

/* Rotary triples of the positions in span, absolute (frame added). */
QSA_API qsa_status qsa_seq_read_triples(const qsa_cache *cache, qsa_seq seq, qsa_span span, qsa_triple *out);

/* Recomputes every pooled key of the sequence from its raw keys and compares bits.
 * Errors: QSA_E_FORMAT naming layer and group of the first difference; QSA_E_MEMORY. */
QSA_API qsa_status qsa_seq_verify_index(const qsa_cache *cache, qsa_seq seq);

/* XXH3 of the logical state of a sequence: anchor, frontier, frame, window, triples, K, V, raw and pooled keys of all
 * layers. Does not depend on pages, threads or instruction set. */
QSA_API qsa_status qsa_seq_digest(const qsa_cache *cache, qsa_seq seq, uint64_t *out_digest);

QSA_END_DECLS
#endif
