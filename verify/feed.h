/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a case (golden_case.h) to libqsa, in chunks and parts, and keeps every token's results. */
#ifndef QSA_VERIFY_FEED_H
#define QSA_VERIFY_FEED_H

#include "verify/golden_case.h"

#include <qsa/qsa.h>

typedef struct feed_options {
    uint32_t chunk;        /* tokens per step; 0: all in one */
    uint32_t parts;        /* of every phase; 0: one */
    uint32_t first_output; /* the tokens before it only update the cache */
    bool no_window;        /* ignore the case's window */
    uint32_t sequences;    /* capacity of the cache in sequences; 0: one */
} feed_options;

/* One sequence fed with a case. Results of tokens without output are unspecified. */
typedef struct feed_run {
    const golden_case *c;
    qsa_config config;
    qsa_norm_weights norms;
    qsa_cache *cache;
    qsa_seq seq;
    uint32_t groups_size; /* of one token's groups: budget / ratio */
    uint32_t output_size; /* of one token's output: q_heads * head_dim of config */
    uint32_t *groups;     /* [n][groups_size] selected, ascending, counted from the case's anchor */
    uint32_t *n_groups;   /* [n] */
    float *output;        /* [n][output_size] */
} feed_run;

/* The configuration of a case, one layer. A case without q, k and v, or with final ones, gets the smallest possible
 * attention: its keys and values are zeros and only its selections are meaningful. Fills in norms, which must outlive
 * the creation of the cache. */
qsa_config feed_config(const golden_case *c, qsa_norm_weights *norms);

/* Creates a cache and an open sequence with the case's frame and window. Close run whatever the status. */
qsa_status feed_open(feed_run *run, const golden_case *c, const feed_options *options);
/* Feeds the tokens [first, end) of the case, which begin at the frontier. */
qsa_status feed_tokens(feed_run *run, uint32_t first, uint32_t end, const feed_options *options);
/* feed_open and feed_tokens for the whole case. */
qsa_status feed_all(feed_run *run, const golden_case *c, const feed_options *options);
void feed_close(feed_run *run);

/* One sequence's tokens in a step of several sequences; the run's cache need not be that of the step. */
typedef struct feed_piece {
    feed_run *run; /* receives the results */
    qsa_seq seq;
    uint32_t first, n;
} feed_piece;

/* One step over pieces of cases of one shape. */
qsa_status feed_step(qsa_cache *cache, const feed_piece *pieces, size_t n_pieces, uint32_t parts, bool wants_output);

#endif
