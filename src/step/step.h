/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a step.
 *
 *            qsa_step_begin              qsa_layer_begin, phases            qsa_step_commit
 *   idle ---------------------> open ---------------------------> open ---------------------> idle
 *                                 \______ qsa_step_abort, a failed commit ____________________/
 *
 * Invariants:
 *  1. While open, nothing that a committed query could read has changed: new tokens lie in slots at or beyond the
 *     frontier, in pages whose only reference is the step's; a shared last page was copied at begin.
 *  2. `error` only goes down: the lowest (layer, phase, entry, token, tensor) that any part has met.
 *  3. Every address that a phase uses was computed at begin; a phase takes no lock and allocates nothing. */
#ifndef QSA_STEP_STEP_H
#define QSA_STEP_STEP_H

#include "attend/attend.h"
#include "base/carve.h"
#include "cache/cache.h"
#include "select/select.h"

#include <qsa/step.h>
#include <stdatomic.h>

enum {
    QSA_SCAN_QUERIES = 8, /* queries that share the load of a tile */
    QSA_SCAN_TILES = 16   /* tiles scored between two looks at the threshold */
};

typedef struct qsa_step_entry {
    qsa_sequence *sequence;
    int64_t position; /* of its first token */
    uint32_t tokens;
    uint32_t first_token; /* within the step */
    uint64_t stored;      /* tokens of the run before the step */
    uint64_t first_group; /* group that the first new token falls into */
    uint64_t first_unit;  /* append units (touched groups) of the entries before */
    uint32_t new_pages;   /* taken at begin, beyond the sequence's n_pages */
    uint32_t replaced;    /* shared last page that a copy stands in for */
    bool has_replaced;
} qsa_step_entry;

/* What a query of the step sees, counted from the anchor of its sequence. */
typedef struct qsa_query {
    uint64_t first_group, end_group; /* candidates */
    uint64_t tail;                   /* first token after the last complete group */
    uint32_t n_tail;
} qsa_query;

/* Working memory of one part. */
typedef struct qsa_part {
    float *queries;            /* [QSA_SCAN_QUERIES][index_heads][index_dim] */
    float *scores;             /* [QSA_SCAN_QUERIES][QSA_SCAN_TILES][page_groups] */
    qsa_candidate *candidates; /* [QSA_SCAN_QUERIES][capacity] */
    float *raw;                /* [ratio][index_dim] */
    float *k;                  /* [kv_heads][head_dim] */
    qsa_attend_scratch attend;
} qsa_part;

typedef struct qsa_layer_state {
    uint32_t layer;
    bool announced;
    qsa_tensors tensors;
    qsa_output out;
    atomic_uint parts; /* of this layer; 0: not known yet */
    atomic_uint parts_done[QSA_PHASES];
    uint8_t *next_phase; /* [QSA_MAX_PARTS] of each part; touched by one thread between barriers */
} qsa_layer_state;

struct qsa_step {
    qsa_cache *cache;
    uint64_t stamp; /* counts steps; marks sequences that are in this one */
    uint32_t n_entries, n_tokens;
    uint64_t n_units;
    uint32_t k; /* budget in groups */

    qsa_step_entry *entries;  /* [max_step_tokens] */
    uint32_t *token_entry;    /* [max_step_tokens] */
    qsa_triple *relative;     /* [max_step_tokens] */
    float *cos_sin;           /* [max_step_tokens][2 * pairs] */
    uint32_t *selected;       /* [max_step_tokens][k] */
    uint32_t *n_selected;     /* [max_step_tokens] */
    uint64_t *sequence_stamp; /* [max_sequences] */

    qsa_candidate *partial; /* [2 * max_parts][k] members of a range of pages, before the merge */
    uint32_t *n_partial;    /* [2 * max_parts] */
    uint32_t capacity;      /* candidates of one selection */

    qsa_part *parts; /* [max_parts] */
    qsa_layer_state layer;
    uint8_t *layer_done;        /* [layers] */
    atomic_uint_fast64_t error; /* UINT64_MAX: none */
};

/* Carves the step and its arrays. config passed qsa_shape_check. Returns NULL while measuring. */
struct qsa_step *qsa_step_carve(qsa_carve *carve, const qsa_config *config, const qsa_layout *layout);

/* Splits n units over the parts: [*begin, *end) is that of `part`. */
static inline void qsa_share(uint64_t n, uint32_t part, uint32_t parts, uint64_t *begin, uint64_t *end)
{
    *begin = n * part / parts;
    *end = n * (part + 1) / parts;
}

static inline const qsa_step_entry *qsa_entry_of(const struct qsa_step *step, uint32_t token)
{
    return &step->entries[step->token_entry[token]];
}

/* The announced layer wants no output: its tokens are stored, and phases 1 to 3 do nothing. */
static inline bool qsa_stores_only(const struct qsa_step *step)
{
    return step->layer.out.data == NULL;
}

qsa_query qsa_query_of(const struct qsa_step *step, uint32_t token);

static inline const float *qsa_token_cos_sin(const struct qsa_step *step, uint32_t token)
{
    return step->cos_sin + (size_t)token * 2 * step->cache->rotary.pairs;
}

/* The phases; part of parts, parts at most max_parts. */
void qsa_phase_append(struct qsa_step *step, uint32_t part, uint32_t parts);
void qsa_phase_scan(struct qsa_step *step, uint32_t part, uint32_t parts);
void qsa_phase_select(struct qsa_step *step, uint32_t part, uint32_t parts);
void qsa_phase_attend(struct qsa_step *step, uint32_t part, uint32_t parts);

/* ---- the sticky error ---- */

/* Tensors in the order in which they are reported. */
enum qsa_input {
    QSA_INPUT_Q = 0,
    QSA_INPUT_K,
    QSA_INPUT_V,
    QSA_INPUT_INDEX_Q,
    QSA_INPUT_RAW_KEY,
    QSA_INPUT_K_STORED, /* finite, but beyond what the K/V type can hold */
    QSA_INPUT_V_STORED
};

/* Records that an element of a tensor of the step was not finite. */
void qsa_step_refuse(struct qsa_step *step, uint32_t phase, uint32_t entry, uint32_t token, enum qsa_input input);
/* The sticky error as a status with its detail; QSA_OK if there is none. */
qsa_status qsa_step_error(const struct qsa_step *step);

#endif
