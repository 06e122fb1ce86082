/* SPDX-License-Identifier: Apache-2.0 */
/* The cache: K, V and index of every QSA layer of any number of sequences.
 *
 * K/V and index change together, in one commit; nothing updates one alone. Sequences share one pool of pages of 64
 * tokens; where a token is stored is invisible outside, and no result depends on it.
 *
 * Threads: one thread at a time uses a cache, except for the phases of a step (step.h). Caches are independent of each
 * other.
 *
 * Callbacks (the allocator here, reader and writer in snapshot.h) may call anything, on this cache only what reads
 * bookkeeping: qsa_seq_query, qsa_cache_config, _counters, _free_tokens, _isa, _check. Every other call with the cache
 * is QSA_E_BUSY until the operation that called back has returned, and qsa_cache_destroy does nothing. */
#ifndef QSA_CACHE_H
#define QSA_CACHE_H

#include <qsa/config.h>
#include <qsa/run.h>

QSA_BEGIN_DECLS

typedef struct qsa_cache qsa_cache;

/* Handle of a sequence, a value; {0} is no sequence. A handle belongs to one cache. The handle of a closed sequence
 * stays invalid, even when its slot is used again. (Both hold for 2^32 sequences opened by a process.) */
typedef struct qsa_seq {
    uint32_t slot;
    uint32_t generation;
} qsa_seq;

typedef struct qsa_seq_info {
    int64_t anchor;       /* position of the first stored token; 0 while empty */
    int64_t frontier;     /* position of the next token; 0 before the first step */
    int64_t rotary_frame; /* F */
    uint64_t window;      /* tokens it keeps; 0: all */
    uint64_t tokens;      /* frontier - anchor */
    uint64_t groups;      /* complete groups, tokens / ratio */
    uint64_t pages;       /* pages it refers to, shared ones included */
} qsa_seq_info;

/* Work since the cache was created, summed over layers. */
typedef struct qsa_counters {
    uint64_t steps;                            /* committed */
    uint64_t tokens;                           /* appended and committed */
    uint64_t layouts;                          /* page tables laid out: one per step, not per layer */
    uint64_t keys_pooled;                      /* pooled keys computed */
    uint64_t groups_scored;                    /* (query, candidate group) pairs scored */
    uint64_t groups_chosen;                    /* of them, selected */
    uint64_t k_rows_read;                      /* (query, kv head, token) K rows read by attention; as many V rows */
    uint64_t pages_taken;                      /* from the free list */
    uint64_t pages_copied;                     /* copy on write, and qsa_seq_copy */
    uint64_t bytes_uploaded, bytes_downloaded; /* to and from a device other than the host */
    uint64_t launches;                         /* kernel launches of that device */
} qsa_counters;

/* Creates an empty cache, which owns all its memory; config and norm weights are copied.
 * Errors: QSA_E_ARGUMENT, QSA_E_LIMIT (shape), QSA_E_NONFINITE (norm weights, naming layer and tensor), QSA_E_MEMORY,
 * QSA_E_UNSUPPORTED (QSA_ISA names an instruction set that this processor or build lacks). */
QSA_API qsa_status qsa_cache_create(const qsa_config *config, qsa_cache **out_cache);

/* Frees the cache and all that is in it, an open step included. NULL is legal. Inside one of its own callbacks it does
 * nothing. */
QSA_API void qsa_cache_destroy(qsa_cache *cache);

/* The configuration it was created with; norms and allocator are NULL, fields of YaRN without a factor the defaults.
 * Errors: QSA_E_ARGUMENT. */
QSA_API qsa_status qsa_cache_config(const qsa_cache *cache, qsa_config *out_config);
QSA_API qsa_status qsa_cache_counters(const qsa_cache *cache, qsa_counters *out_counters);

/* Free pages * 64: the tokens that still fit if they all go to new pages. */
QSA_API uint64_t qsa_cache_free_tokens(const qsa_cache *cache);

/* Instruction set of the kernels in use: "scalar", "avx2", ... The best of this processor when the cache was created,
 * or the one that the environment variable QSA_ISA names. Static storage. */
QSA_API const char *qsa_cache_isa(const qsa_cache *cache);

/* Verifies the invariants of the cache's state. O(pages). Errors: QSA_E_FORMAT naming the first one that is broken. */
QSA_API qsa_status qsa_cache_check(const qsa_cache *cache);

/* ---- the life of a sequence ----
 *
 * During a step, and inside a callback of this cache, all of these but qsa_seq_query are QSA_E_BUSY. A handle that is
 * not an open sequence of this cache is QSA_E_SEQUENCE. */

/* Opens an empty sequence; its first step sets the anchor. Errors: QSA_E_FULL (max_sequences). */
QSA_API qsa_status qsa_seq_open(qsa_cache *cache, qsa_seq *out_seq);

/* Closes a sequence and releases its pages. */
QSA_API qsa_status qsa_seq_close(qsa_cache *cache, qsa_seq seq);

QSA_API qsa_status qsa_seq_query(const qsa_cache *cache, qsa_seq seq, qsa_seq_info *out_info);

/* Drops the tokens from position `to` on: frontier = to. `to` may lie inside a group. A sequence rewound to its anchor
 * keeps the anchor: its next token has that position. O(freed pages). Errors:
 * QSA_E_RANGE outside [anchor, frontier]. */
QSA_API qsa_status qsa_seq_rewind(qsa_cache *cache, qsa_seq seq, int64_t to);

/* Drops the tokens before position `upto`: anchor = upto. If their number is a multiple of the ratio, or all of them
 * go: O(freed pages). Otherwise the tokens are regrouped from the new anchor: the remaining tokens are copied into
 * private pages and their keys pooled again from raw keys, O(bytes); this needs as many free pages as the remaining
 * tokens take. Errors: QSA_E_RANGE outside [anchor, frontier]; QSA_E_FULL (pages). */
QSA_API qsa_status qsa_seq_evict(qsa_cache *cache, qsa_seq seq, int64_t upto);

/* Drops the tokens of a span: a prefix as evict does, a suffix or everything as rewind does. An empty span changes
 * nothing. Errors: QSA_E_HOLE (a span in the middle, naming both ends), QSA_E_RANGE, QSA_E_FULL (as evict). */
QSA_API qsa_status qsa_seq_remove(qsa_cache *cache, qsa_seq seq, qsa_span span);

/* Adds delta to every position and to the rotary frame: no byte moves and no result changes (SPEC section 1). Before
 * its first step a sequence has only a frame to shift. O(1). Errors: QSA_E_RANGE (a position outside 0 .. 2^31-1). */
QSA_API qsa_status qsa_seq_shift(qsa_cache *cache, qsa_seq seq, int64_t delta);

/* From now on keeps about the newest `tokens` tokens, by the rule of SPEC section 2: per query, so that chunking cannot
 * matter. Pages are freed at commit; more tokens than the sequence holds keep everything. O(1).
 * Errors: QSA_E_ARGUMENT (fewer tokens than the ratio). */
QSA_API qsa_status qsa_seq_window(qsa_cache *cache, qsa_seq seq, uint64_t tokens);

/* Opens a sequence that shares [anchor, at) with this one; `at` may lie inside a group. Frame and window are inherited.
 * A shared page is copied when either side writes into it. O(pages). Errors:
 * QSA_E_RANGE, QSA_E_FULL (max_sequences). */
QSA_API qsa_status qsa_seq_fork(qsa_cache *cache, qsa_seq seq, int64_t at, qsa_seq *out_seq);

/* As fork at the frontier, but into pages of its own. O(bytes). Errors: QSA_E_FULL (pages, max_sequences). */
QSA_API qsa_status qsa_seq_copy(qsa_cache *cache, qsa_seq seq, qsa_seq *out_seq);

/* Moves pages so that the sequences are contiguous and in order from the front of the pool. Physical only: no result
 * and no digest changes. O(bytes moved). */
QSA_API qsa_status qsa_cache_compact(qsa_cache *cache);

/* ---- reading back: for tests, tools, and hosts that store state themselves ---- */

typedef enum qsa_tensor {
    QSA_TENSOR_K = 0,  /* [tokens][kv_heads][head_dim] normed, rotated, rounded to storage */
    QSA_TENSOR_V,      /* [tokens][kv_heads][head_dim] */
    QSA_TENSOR_RAW,    /* [tokens][index_dim] */
    QSA_TENSOR_POOLED, /* [groups][index_dim]; both ends of the span on group boundaries */
    QSA_TENSOR_COUNT
} qsa_tensor;

/* Copies committed values of the positions in span, widened to f32, into out (shapes above).
 * Errors: QSA_E_ARGUMENT, QSA_E_RANGE (outside the run, or not whole groups). */
QSA_API qsa_status qsa_seq_read(const qsa_cache *cache, qsa_seq seq, uint32_t layer, qsa_tensor tensor, qsa_span span,
                                float *out);

/* Rotary triples of the positions in span, absolute (the frame added); out [end - begin]. Errors: QSA_E_RANGE;
 * QSA_E_LIMIT (after a shift: an absolute coordinate that does not fit in 32 bits, naming the position). */
QSA_API qsa_status qsa_seq_read_triples(const qsa_cache *cache, qsa_seq seq, qsa_span span, qsa_triple *out);

/* Pools every key of the sequence again from its raw keys and compares bits. Allocates for the call.
 * Errors: QSA_E_FORMAT (naming layer and group of the first difference), QSA_E_MEMORY. */
QSA_API qsa_status qsa_seq_verify_index(const qsa_cache *cache, qsa_seq seq);

/* XXH3 of a sequence's logical state: anchor, frontier, frame, window, triples, K, V, raw and pooled keys of all
 * layers. Independent of pages, threads, device and instruction set. */
QSA_API qsa_status qsa_seq_digest(const qsa_cache *cache, qsa_seq seq, uint64_t *out_digest);

QSA_END_DECLS
#endif
