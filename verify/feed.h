/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a case (golden_case.h) to libqsa, in chunks and parts, and keeps every token's results. */
#ifndef QSA_VERIFY_FEED_H
#define QSA_VERIFY_FEED_H

#include "verify/golden_case.h"

#include <qsa/qsa.h>

typedef struct feed_options {
    uint32_t chunk;        /* tokens per step; 0: all at once */
    uint32_t parts;        /* of every phase; 0: one */
    uint32_t first_output; /* tokens before it are stored without output */
    bool no_window;        /* leave the case's window out */
    uint32_t sequences;    /* that the cache can hold; 0: one */
} feed_options;

/* One sequence fed with a case. Rows of tokens that had no output are unspecified. */
typedef struct feed_run {
    const golden_case *c;
    qsa_config config;
    qsa_norm_weights norms;
    qsa_cache *cache;
    qsa_seq seq;
    uint32_t groups_size; /* of a row of groups: budget / ratio */
    uint32_t output_size; /* of a row of output: q_heads * head_dim of config */
    uint32_t *groups;     /* [n][groups_size] chosen, ascending, counted from the case's anchor */
    uint32_t *n_groups;   /* [n] */
    float *output;        /* [n][output_size] */
} feed_run;

/* The configuration of a case, one layer. A case whose q, k and v are final, or that has none, gets the smallest
 * attention there is: its keys and values are fed as zeros and only its selections mean something.
 * norms is filled in and must outlive the creation of the cache. */
qsa_config feed_config(const golden_case *c, qsa_norm_weights *norms);

/* Creates a cache and an open sequence with the case's frame and window. run is to be closed whatever the status. */
qsa_status feed_open(feed_run *run, const golden_case *c, const feed_options *options);
/* Feeds the tokens [first, end) of the case, which stand at the frontier. */
qsa_status feed_tokens(feed_run *run, uint32_t first, uint32_t end, const feed_options *options);
/* Both, for the whole case. */
qsa_status feed_all(feed_run *run, const golden_case *c, const feed_options *options);
void feed_close(feed_run *run);

/* Tokens of one sequence in a step that several share; the run's cache need not be that of the step. */
typedef struct feed_piece {
    feed_run *run; /* takes the results */
    qsa_seq seq;
    uint32_t first, n;
} feed_piece;

/* One step over pieces of cases of one shape. */
qsa_status feed_step(qsa_cache *cache, const feed_piece *pieces, size_t n_pieces, uint32_t parts, bool wants_output);

#endif
