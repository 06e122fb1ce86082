/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: pages in this process's memory, the kernels of kernels/, phases run by parts.
 *
 * Three nouns. A part is what runs a phase beside others (usually a thread of the caller). A task is what a part does
 * at a time; a phase has a constant number of them. A range is a cut of something: of pages, tokens, dimensions or
 * heads. Neither the number of parts nor who did which task can be seen in a result. */
#ifndef QSA_DEVICE_HOST_STORE_H
#define QSA_DEVICE_HOST_STORE_H

#include "attend/attend.h"
#include "device/device.h"
#include "device/host/steal.h"
#include "select/merge.h"

enum {
    QSA_SCAN_QUERIES = 8,    /* queries that share the load of a tile */
    QSA_KEYS_NORMED = 32,    /* k vectors that are normed before they are stored, if not a token alone has more */
    QSA_POOLED_AT_ONCE = 16, /* groups that are pooled together */
    QSA_RANGES_LIMIT = 2,    /* page ranges that a part scans, if there are fewer queries than parts */
    QSA_SCAN_TILES = 32 /* tiles that so many queries score between two looks at the threshold; fewer, more tiles */
};

/* Working memory of one part. */
typedef struct qsa_scratch {
    float *queries; /* [QSA_SCAN_QUERIES][index_heads][index_dim] */
    float *scores;  /* [queries][tiles][page_groups], queries x tiles at most the product of both limits */
    qsa_candidate
        *candidates;       /* [QSA_SCAN_QUERIES][capacity] one of each query; or of each range, and one to work in */
    float *raw;            /* [ratio][index_dim] */
    float *means, *pooled; /* [QSA_POOLED_AT_ONCE][index_dim] */
    float *angles;         /* [QSA_POOLED_AT_ONCE][rotary_dim] */
    float *k;              /* [max(kv_heads, QSA_KEYS_NORMED)][head_dim] */
    qsa_attend_scratch attend;
} qsa_scratch;

typedef struct qsa_host_store {
    qsa_store base;
    uint8_t *arena[QSA_ARENA_COUNT];

    uint32_t k;           /* budget in groups */
    uint32_t capacity;    /* candidates of one selection */
    uint32_t *selected;   /* [max_step_tokens][k] groups */
    uint32_t *n_selected; /* [max_step_tokens] */
    qsa_range *ranges;    /* [QSA_RANGES_LIMIT * max_parts] of pages, between phases 1 and 2 */
    qsa_candidate *few;   /* [QSA_RANGES_LIMIT * max_parts][qsa_few_limit(k, 2)] the best of each */
    float *qk;            /* [max_parts - 1][q_heads / kv_heads][x_stride] QK^T between phases 3 and 4 */
    qsa_scratch *scratch; /* [max_parts] */
    qsa_next_task *next;  /* [QSA_STEALING_COUNT][max_parts] */
} qsa_host_store;

static inline qsa_host_store *qsa_host(qsa_store *store)
{
    return (qsa_host_store *)(void *)store;
}

/* One part of one phase of a layer. */
typedef struct qsa_host_context {
    qsa_host_store *store;
    const qsa_batch *batch;
    const qsa_layer_io *io;
    qsa_scratch *scratch; /* the part's own */
    uint32_t part, parts; /* parts at most max_parts */
} qsa_host_context;

/* The next tasks of a phase of n for the context's part, at most `most`; see steal.h. */
static inline bool qsa_host_steal(const qsa_host_context *c, enum qsa_stealing phase, uint64_t n, uint32_t most,
                                  uint64_t *begin, uint64_t *end)
{
    qsa_next_task *next = c->store->next + (size_t)phase * c->store->base.config->max_parts;
    return qsa_steal(next, n, c->part, c->parts, most, begin, end);
}

/* Tokens that are stored together. */
static inline uint32_t qsa_append_limit(const qsa_config *config)
{
    return config->kv_heads < QSA_KEYS_NORMED ? QSA_KEYS_NORMED / config->kv_heads : 1;
}

static inline uint8_t *qsa_host_page(const qsa_host_store *store, enum qsa_arena arena, uint32_t layer, uint32_t page)
{
    return store->arena[arena] + qsa_layout_page(store->base.layout, arena, layer, page);
}

#endif
