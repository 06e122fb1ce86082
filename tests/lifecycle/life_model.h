/* The model of one sequence, and the cache beside it. */
#ifndef LIFE_MODEL_H
#define LIFE_MODEL_H

#include "life.h"

typedef struct walker {
    bool open, placed;
    bool images; /* tokens come with triples of their own */
    qsa_seq seq;
    int64_t anchor, frame;
    uint64_t window;
    uint32_t n;
    uint32_t ids[LIFE_LONGEST];
    qsa_triple relative[LIFE_LONGEST]; /* to the frame */
    bool modelled;                     /* `layer` holds the n tokens */
    bool digested;                     /* `digest` is that of the model */
    uint64_t digest;
    oracle_run layer[LIFE_LAYERS];
} walker;

struct life {
    life_rules rules;
    oracle_shape shape;
    uint64_t seed, chance;
    const uint8_t *bytes;
    size_t n_bytes, used;
    uint32_t verb;
    const char *doing;
    qsa_cache *cache;
    qsa_threads *threads;
    walker walkers[LIFE_SEQUENCES];
    uint32_t next_id;
};

/* Fails, with the replay line, unless it holds. */
void life_expect(const life *l, const char *what, bool holds);
uint32_t life_below(life *l, uint32_t n);

/* ---- the model; every change goes through here ---- */

void walker_forget(walker *one);
/* Keeps the first n tokens, or adds up to n that the oracle has already. */
void walker_cut(walker *one, uint32_t n);
void walker_drop_front(walker *one, uint32_t n);
/* The window's rule for the query that comes next. */
void walker_slide(const life *l, walker *one);
void walker_shift(walker *one, int64_t by);
void walker_window(walker *one, uint64_t window);
/* A second one with the first n tokens. */
void walker_clone(const walker *from, uint32_t n, qsa_seq seq, walker *to);
/* The oracle's runs hold the n tokens. */
void walker_need_model(const life *l, walker *one);
/* The oracle's runs get n tokens of a batch behind the ones they have; ids and triples are set already. */
void walker_append(walker *one, const life *l, const world_batch *batch, uint32_t first, uint32_t n);
/* XXH3 of the logical state, from the oracle's arrays. */
uint64_t walker_digest(const life *l, walker *one);

/* All sequences of the cache are those of the model. */
void life_compare(life *l);

/* ---- deeds by hand, for tests that know what they want ---- */

/* Opens a sequence in both. */
walker *life_open(life *l);
/* One step of n tokens, of which `keep` stay; every query is compared. position is read for a sequence never fed and
 * must be the frontier of another. */
void life_feed(life *l, walker *one, int64_t position, uint32_t n, uint32_t keep);
void life_close(life *l, walker *one);

/* ---- the verbs, in life_step.c and life_saved.c ---- */

void life_step(life *l);
void life_bad_append(life *l, walker *one);
void life_hand_over(life *l);
void life_restore_beside(life *l);
void life_damaged_snapshot(life *l);

#endif
