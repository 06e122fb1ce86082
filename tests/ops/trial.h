/* SPDX-License-Identifier: Apache-2.0 */
/* One random case of one operation: the scalar table computes it at once, another table in pieces; both must give the
 * same bits and write nothing else. */
#ifndef TRIAL_H
#define TRIAL_H

#include "support.h"

#include "differential/random_values.h"
#include "ops/ops.h"

enum { TRIAL_MOST_ARRAYS = 24 };

typedef struct trial {
    const ops_table *scalar, *table;
    const char *operation;
    uint64_t seed;
    random_source random;
    guarded arrays[TRIAL_MOST_ARRAYS]; /* all that the case has */
    size_t count;
} trial;

/* Runs `test` on every table that runs here, `cases` seeds each; QSA_TEST_SEED names the first. */
void each_trial(const char *operation, size_t cases, void (*test)(trial *t));

size_t trial_size(trial *t, size_t low, size_t high);
/* Random numbers below 2^most in magnitude; marks around them. */
float *trial_input(trial *t, size_t count, int most);
/* What an operation writes, twice, with the same random numbers in both. */
typedef struct trial_pair {
    float *expected, *actual;
    size_t count;
} trial_pair;
trial_pair trial_output(trial *t, size_t count, int most);

/* Fails the test where the two differ in a bit; NaN equals NaN. */
void trial_compare(const trial *t, const char *what, trial_pair pair);

/* Runs `call` with `range` on one piece of [0, units) after the other, cut at random. */
#define EACH_PIECE(t, units, call)                                                                                     \
    for (size_t begin_ = 0, end_; begin_ < (units); begin_ = end_) {                                                   \
        end_ = begin_ + trial_size(t, 1, (units)-begin_);                                                              \
        const ops_range range = {begin_, end_};                                                                        \
        call;                                                                                                          \
    }

#endif
