/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: pages in this process's memory, the kernels of kernels/, work divided into parts. */
#ifndef QSA_DEVICE_HOST_HOST_H
#define QSA_DEVICE_HOST_HOST_H

#include "attend/attend.h"
#include "device/device.h"
#include "select/merge.h"

#include <stdatomic.h>

enum {
    QSA_SCAN_QUERIES = 8,    /* queries that share the load of a tile */
    QSA_ROWS_NORMED = 32,    /* rows of k that are normed before they are stored, if not a token alone has more */
    QSA_POOLED_AT_ONCE = 16, /* groups that are pooled together */
    QSA_RANGES_LIMIT = 2,    /* ranges that a part scans, if there are fewer queries than parts */
    QSA_SCAN_TILES = 32 /* tiles that so many queries score between two looks at the threshold; fewer, more tiles */
};

/* What is left of one part's share of a phase. Parts that are done help those that have begun, so that a thread that
 * the system held up is not waited for; who does a unit cannot be seen in it. */
typedef struct qsa_rest {
    atomic_uint_fast64_t next;                     /* of the part's units; QSA_NOT_BEGUN until the part comes */
    char alone[64 - sizeof(atomic_uint_fast64_t)]; /* on a cache line of its own */
} qsa_rest;

#define QSA_NOT_BEGUN UINT64_MAX

/* Phases whose units are helped with. */
enum qsa_helped { QSA_HELPED_SCAN = 0, QSA_HELPED_COMPARE, QSA_HELPED_ATTEND, QSA_HELPED_COUNT };

/* Working memory of one part. */
typedef struct qsa_part {
    float *queries; /* [QSA_SCAN_QUERIES][index_heads][index_dim] */
    float *scores;  /* [queries][tiles][page_groups], queries x tiles at most the product of both */
    qsa_candidate
        *candidates;       /* [QSA_SCAN_QUERIES][capacity] one of each query; or of each range, and one to work in */
    float *raw;            /* [ratio][index_dim] */
    float *means, *pooled; /* [QSA_POOLED_AT_ONCE][index_dim] */
    float *angles;         /* [QSA_POOLED_AT_ONCE][rotary_dim] */
    float *k;              /* [max(kv_heads, QSA_ROWS_NORMED)][head_dim] */
    qsa_attend_scratch attend;
} qsa_part;

typedef struct qsa_host_store {
    qsa_store base;
    uint8_t *arena[QSA_ARENA_COUNT];

    uint32_t k;           /* budget in groups */
    uint32_t capacity;    /* candidates of one selection */
    uint32_t *selected;   /* [max_step_tokens][k] */
    uint32_t *n_selected; /* [max_step_tokens] */
    qsa_range *ranges;    /* [QSA_RANGES_LIMIT * max_parts] of pages, between phases 1 and 2 */
    qsa_candidate *few;   /* [QSA_RANGES_LIMIT * max_parts][qsa_few_limit(k, 2)] the best of each */
    float *compared;      /* [max_parts - 1][q_heads / kv_heads][x_stride] x of rows that several parts share */
    qsa_part *parts;      /* [max_parts] */
    qsa_rest *rests;      /* [QSA_HELPED_COUNT][max_parts] */
} qsa_host_store;

static inline qsa_host_store *qsa_host(qsa_store *store)
{
    return (qsa_host_store *)(void *)store;
}

/* Tokens that are stored together. */
static inline uint32_t qsa_span_limit(const qsa_config *config)
{
    return config->kv_heads < QSA_ROWS_NORMED ? QSA_ROWS_NORMED / config->kv_heads : 1;
}

static inline uint8_t *qsa_host_page(const qsa_host_store *store, enum qsa_arena arena, uint32_t layer, uint32_t page)
{
    return store->arena[arena] + qsa_layout_page(store->base.layout, arena, layer, page);
}

/* Forgets the shares of a part in the layer before. In the first phase: a barrier lies between it and the others. */
void qsa_rests_reset(qsa_host_store *store, uint32_t part);
/* The next units of a phase of n units for `part`: at most `most` of its own share, then of others. False: none are
 * left. */
bool qsa_rests_take(qsa_host_store *store, enum qsa_helped phase, uint64_t n, uint32_t part, uint32_t parts,
                    uint32_t most, uint64_t *begin, uint64_t *end);

/* The phases; part of parts, parts at most max_parts. */
void qsa_host_append(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts);
void qsa_host_scan(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                   uint32_t parts);
void qsa_host_select(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts);
void qsa_host_compare(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                      uint32_t parts);
void qsa_host_attend(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts);

/* The members [begin, end) of a token's row for one kv head: its groups, and after them the tail as one member more. */
void qsa_host_row(const qsa_host_store *store, const qsa_batch *batch, uint32_t layer, uint32_t token, uint32_t kv_head,
                  uint32_t begin, uint32_t end, qsa_row_view *row);

/* A complete group: where its first token lies, and that token's cos and sin. */
typedef struct qsa_group {
    qsa_place first;
    const float *cos_sin;
} qsa_group;

/* The pooled keys of n groups, at most QSA_POOLED_AT_ONCE, from their raw keys. part: working memory. */
void qsa_host_pool(qsa_host_store *store, uint32_t layer, const qsa_part *part, const qsa_group *groups, uint32_t n);

#endif
