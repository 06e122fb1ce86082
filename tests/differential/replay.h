/* Feeds a recorded case to libqsa, in chunks and parts, and hands every token's results to a callback. */
#ifndef REPLAY_H
#define REPLAY_H

#include "verify/golden_case.h"

#include <qsa/qsa.h>
#include <stdbool.h>

typedef struct replay_options {
    uint32_t chunk; /* tokens per step; 0: all at once */
    uint32_t parts; /* of every phase */
} replay_options;

/* The configuration of a case, one layer. norms is filled in and must outlive the cache. */
qsa_config replay_config(const golden_case *c, qsa_norm_weights *norms);

/* False where a case has no attention. */
bool replay_possible(const golden_case *c);

/* Results of one query: token offset in the run, its chosen groups counted from the run's first token, its output
 * [q_heads][head_dim]. */
typedef void replay_fn(void *user, uint32_t token, const uint32_t *groups, uint32_t n_groups, const float *output);

/* Runs the whole case in one fresh sequence; fails the test on any error. The sequence is handed back open. */
qsa_seq replay_run(const golden_case *c, qsa_cache *cache, replay_options options, replay_fn *each, void *user);

#endif
