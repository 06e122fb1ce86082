/* SPDX-License-Identifier: Apache-2.0 */
/* A second implementation for `qsa verify`: loops that follow SPEC.md line by line. It calls nothing of libqsa, so that
 * a difference means that one of the two is wrong. Without YaRN and windows, K/V in f32 and bf16. */
#ifndef QSA_VERIFY_NAIVE_H
#define QSA_VERIFY_NAIVE_H

#include "verify/golden_case.h"

typedef struct naive_run {
    const golden_case *c;
    float *cos_sin; /* [n][2 * pairs]: cos, then sin */
    float *index_q; /* [n][index_heads][index_dim] normed and rotated */
    float *pooled;  /* [n / ratio][index_dim] */
    float *q;       /* [n][q_heads][head_dim] normed and rotated; q, k, v NULL without projections */
    float *k, *v;   /* [n][kv_heads][head_dim] as stored */
} naive_run;

void naive_open(naive_run *run, const golden_case *c);
void naive_close(naive_run *run);

/* Chosen groups of the query at offset t, ascending; room for budget / ratio. Returns how many. */
uint32_t naive_select(const naive_run *run, uint32_t t, uint32_t *out_groups);

/* Attention of the query at offset t over a row of offsets; out [q_heads][head_dim]. */
void naive_attend(const naive_run *run, uint32_t t, const uint32_t *row, uint32_t row_size, float *out);

/* The row of a selection: its groups expanded, then the tail. Room for budget + ratio - 1. */
uint32_t naive_row(const golden_case *c, uint32_t t, const uint32_t *groups, uint32_t n_groups, uint32_t *out_row);

/* ---- the parts ---- */

/* cos and sin, [2 * pairs], of a position in the frame. */
void naive_cos_sin(const golden_case *c, const int32_t triple[3], float *out);
/* raw_keys [ratio][index_dim], cos_sin of the first; out [index_dim] */
void naive_pool(const golden_case *c, const float *raw_keys, const float *cos_sin, float *out);
/* x [heads][index_dim] of one token; out the same */
void naive_index_query(const golden_case *c, const float *x, const float *cos_sin, float *out);
float naive_score(const golden_case *c, const float *index_q, const float *pooled_key);
/* The best k of n scores by (score descending, number ascending), ascending; returns how many. */
uint32_t naive_best(const float *scores, uint32_t n, uint32_t k, uint32_t *out);

#endif
