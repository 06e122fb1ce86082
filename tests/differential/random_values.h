/* SPDX-License-Identifier: Apache-2.0 */
/* Random shapes and numbers from a seed that a failure prints, and buffers with borders that must stay as they were. */
#ifndef RANDOM_VALUES_H
#define RANDOM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct random_source {
    uint64_t state;
} random_source;

uint64_t random_next(random_source *r);
/* Uniform in low .. high, both included. */
size_t random_between(random_source *r, size_t low, size_t high);
bool random_chance(random_source *r, unsigned one_in);

/* What fills an array: a flavour per array, so that a chain meets many alike. */
typedef enum flavour { ORDINARY, WIDE, SUBNORMAL, SIGNED_ZEROS, MIXED, FLAVOUR_COUNT } flavour;

/* A number of magnitude at most 2^most. */
float random_float(random_source *r, flavour f, int most);
/* count numbers of a random flavour. */
void random_fill(random_source *r, float *out, size_t count, int most);

/* count floats with a border of marks in front and behind, at an odd multiple of 4 bytes. */
typedef struct guarded {
    float *values;
    size_t count;
    void *memory;
} guarded;

guarded guarded_alloc(size_t count);
/* Whether both borders are as they were made. */
bool guarded_intact(const guarded *g);
void guarded_free(guarded *g);

#endif
