/* A cache beside a model of it: random verbs happen to both, and after each of them the two must be the same.
 *
 * The model of a sequence is its numbers, the ids of its tokens (an id decides every value) and one run of the naive
 * oracle per layer, which holds arrays and copies everything. Compared are the digest of every sequence, computed from
 * the oracle's arrays, and selection and output of the queries of each step. */
#ifndef LIFE_H
#define LIFE_H

#include "world.h"

enum { LIFE_SEQUENCES = 8, LIFE_LAYERS = 3, LIFE_LONGEST = 2304 };

typedef struct life_rules {
    const char *name; /* for the replay line */
    qsa_config config;
    uint32_t sequences; /* at most LIFE_SEQUENCES */
    uint32_t low, high; /* lengths are pulled in between */
    uint32_t longest;   /* at most LIFE_LONGEST */
} life_rules;

/* MINI, with the cut at 12 tokens; storage types go by the seed. */
life_rules life_mini(uint64_t seed);
/* The released budget over tiny heads, at 2,044 to 2,060 tokens. */
life_rules life_narrow(uint64_t seed);

typedef struct life life;

/* Chance comes from the seed, or, where bytes is not NULL, from them until they are used up. */
life *life_begin(const life_rules *rules, uint64_t seed, const uint8_t *bytes, size_t n_bytes);
/* One verb. False once the bytes are used up. */
bool life_verb(life *l);
void life_end(life *l);

/* What to do when cache and model differ; NULL: the running test fails. */
extern void (*life_on_failure)(const char *message);

#endif
