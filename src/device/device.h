/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that a device offers, and what the cache tells it of a step.
 *
 * A store is the pages of one cache on one device, with the scratch of a step. Its user refers to pages by number and
 * never sees their addresses. Pages have the same layout on every device (layout.h), so read-back, digests and
 * snapshots are one code: they access a page through a view.
 *
 * Every operation returns the bits of the scalar kernels. Steps are atomic one level up: a failed operation may have
 * written, but only to pages that nobody refers to yet. */
#ifndef QSA_DEVICE_DEVICE_H
#define QSA_DEVICE_DEVICE_H

#include "base/carve.h"
#include "device/layout.h"
#include "device/refusal.h"
#include "device/table.h"
#include "index/pool.h"
#include "index/rotary.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <qsa/step.h>
#include <stdatomic.h>

/* ---- a step, as a device sees it; computed once, when it begins ---- */

/* n consecutive new tokens of one sequence. */
typedef struct qsa_batch_entry {
    qsa_table table;      /* pages of the sequence in order, including the step's new ones */
    uint32_t first_slot;  /* of the run, counted from the start of the table; a multiple of the ratio */
    uint32_t n_chunks;    /* of the table */
    uint32_t first_token; /* within the step */
    uint32_t tokens;
    uint64_t stored; /* tokens of the run before the step */
} qsa_batch_entry;

/* What a query can attend to, counted from the first stored token of its sequence. */
typedef struct qsa_query {
    uint64_t first_group, end_group; /* candidates */
    uint64_t tail;                   /* first token after the last complete group */
    uint32_t n_tail;
} qsa_query;

/* A task of the append phase: a group that receives new tokens, so that a group's tokens and its pooled key
 * belong to one part. */
typedef struct qsa_append_task {
    qsa_place first;      /* of the group's first token */
    uint32_t first_token; /* within the step; it goes to slot first.slot + skipped */
    uint32_t skipped;     /* tokens of the group stored before the step */
    uint32_t tokens;
    uint32_t rotary_row; /* row of cos_sin for the group's first token; only if the group is complete */
    bool complete;
} qsa_append_task;

/* Arrays are the caller's and must not change until the step ends. */
typedef struct qsa_batch {
    uint32_t n_entries, n_tokens, n_tasks, n_rows;
    const qsa_batch_entry *entries;
    const uint32_t *token_entry;  /* [n_tokens] */
    const qsa_query *queries;     /* [n_tokens] */
    const qsa_append_task *tasks; /* [n_tasks] in order of token */
    const float *cos_sin;         /* [n_rows][2 * pairs]: a row per token, then rows for groups begun before the step */
    qsa_refusals *refusals;
} qsa_batch;

/* The tensors of one layer of the step. out.data NULL: the layer only updates the cache; phases after the first are
 * not called. */
typedef struct qsa_layer_io {
    uint32_t layer;
    qsa_tensors tensors;
    qsa_output out;
} qsa_layer_io;

static inline const qsa_batch_entry *qsa_batch_entry_of(const qsa_batch *batch, uint32_t token)
{
    assert(token < batch->n_tokens);
    return &batch->entries[batch->token_entry[token]];
}

static inline const float *qsa_batch_cos_sin(const qsa_batch *batch, uint32_t row, uint32_t pairs)
{
    assert(row < batch->n_rows);
    return batch->cos_sin + (size_t)row * 2 * pairs;
}

/* The place of token number `offset` of an entry's run. */
static inline qsa_place qsa_batch_place(const qsa_batch_entry *entry, uint64_t offset)
{
    assert(entry->first_slot + offset < (uint64_t)entry->n_chunks * QSA_CHUNK_TOKENS);
    return qsa_table_place(&entry->table, entry->first_slot + offset);
}

/* Splits n tasks over the parts: `part` gets [*begin, *end). */
static inline void qsa_share(uint64_t n, uint32_t part, uint32_t parts, uint64_t *begin, uint64_t *end)
{
    assert(part < parts);
    *begin = n * part / parts;
    *end = n * (part + 1) / parts;
}

/* ---- a store ---- */

/* Counters; all parts of a phase add to them. */
typedef struct qsa_work {
    atomic_uint_fast64_t keys_pooled, groups_scored, groups_chosen, k_rows_read;
    atomic_uint_fast64_t bytes_uploaded, bytes_downloaded, launches; /* of a device that is not the host */
} qsa_work;

typedef struct qsa_layer_weights {
    const float *q, *k, *index_q, *index_k;
} qsa_layer_weights;

struct qsa_operations;

/* The beginning of every store; the cache sets it before `open`. Pointers are the cache's. */
typedef struct qsa_store {
    const struct qsa_operations *operations;
    const qsa_config *config; /* the layout's */
    const qsa_layout *layout;
    const qsa_kernels *kernels; /* the host's */
    const qsa_rotary *rotary;
    const qsa_allocator *allocator; /* for host memory beyond the carved arrays */
    const float *weights;           /* [layers]: q, k [head_dim], index_q, index_k [index_dim] */
    qsa_work *work;
} qsa_store;

static inline size_t qsa_weight_floats(const qsa_config *config)
{
    return 2 * ((size_t)config->head_dim + config->index_dim);
}

static inline qsa_layer_weights qsa_store_weights(const qsa_store *store, uint32_t layer)
{
    assert(layer < store->config->layers);
    const uint32_t head = store->config->head_dim, index = store->config->index_dim;
    const float *base = store->weights + layer * qsa_weight_floats(store->config);
    return (qsa_layer_weights){
        .q = base, .k = base + head, .index_q = base + 2 * head, .index_k = base + 2 * head + index};
}

static inline qsa_pool_rule qsa_store_pool_rule(const qsa_store *store, uint32_t layer)
{
    return (qsa_pool_rule){.dim = store->config->index_dim,
                           .ratio = store->config->ratio,
                           .pairs = store->rotary->pairs,
                           .eps = store->config->eps,
                           .bf16 = store->config->profile == QSA_PROFILE_BF16,
                           .weight = qsa_store_weights(store, layer).index_k};
}

typedef struct qsa_operations {
    const char *name;

    /* Carves the store and its scratch in host memory from the cache's one allocation; NULL while measuring. */
    qsa_store *(*carve)(qsa_carve *carve, const qsa_layout *layout);
    /* Bytes that `open` allocates beside the arenas: scratch of a step on the device. NULL: none. */
    uint64_t (*device_bytes)(const qsa_layout *layout);
    /* Allocates the pages. QSA_E_MEMORY, QSA_E_UNSUPPORTED (naming what the device lacks), QSA_E_DEVICE. */
    qsa_status (*open)(qsa_store *store);
    /* Also called after an open that failed, or without one. */
    void (*close)(qsa_store *store);

    /* Whole pages, all layers and arenas. */
    qsa_status (*copy_page)(qsa_store *store, uint32_t from, uint32_t to);
    qsa_status (*swap_pages)(qsa_store *store, uint32_t a, uint32_t b);
    /* Copies n consecutive slots within pages: K, V and raw keys of all layers. */
    qsa_status (*copy_slots)(qsa_store *store, qsa_place from, qsa_place to, uint32_t n);
    /* Pools n consecutive groups of one page, all layers, from raw keys.
     * cos_sin [n][2 * pairs] of their first tokens. */
    qsa_status (*pool)(qsa_store *store, qsa_place first, uint32_t n, const float *cos_sin);

    /* One page of one layer and arena in host memory, to read or modify; valid until the next operation. */
    qsa_status (*view)(qsa_store *store, enum qsa_arena arena, uint32_t layer, uint32_t page, uint8_t **out);
    /* Writes the last view back to its page. */
    qsa_status (*put)(qsa_store *store, enum qsa_arena arena, uint32_t layer, uint32_t page);

    /* A step: begin once, then for each layer the phases in order. A phase is called in parts, from any threads; a
     * device that does not divide its work does it in part 0. Refused input is recorded in batch->refusals in phase 0,
     * or at the latest in the layer's last phase; a status other than QSA_OK means that the device failed. */
    qsa_status (*begin)(qsa_store *store, const qsa_batch *batch);
    qsa_status (*phase)(qsa_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t phase, uint32_t part,
                        uint32_t parts);
    /* The groups that a token selected in the layer that ran last; room for budget / ratio. */
    qsa_status (*selection)(qsa_store *store, uint32_t token, uint32_t *out_groups, uint32_t *out_n);
} qsa_operations;

extern const qsa_operations qsa_host_operations;

/* The beginning of every qsa_device, which the public header leaves opaque. */
struct qsa_device {
    const qsa_operations *operations;
};

static inline const qsa_operations *qsa_operations_of(const qsa_config *config)
{
    return config->device == NULL ? &qsa_host_operations : config->device->operations;
}

#endif
