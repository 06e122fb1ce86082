/* SPDX-License-Identifier: Apache-2.0 */
/* A case computed with the library's functions on plain arrays, stage by stage: the inside of a step. */
#ifndef QSA_VERIFY_PLAIN_H
#define QSA_VERIFY_PLAIN_H

#include "verify/golden_case.h"

#include <qsa/qsa.h>

typedef struct plain_run {
    const golden_case *c;
    qsa_rotary rotary;
    float *cos_sin; /* [n][2][pairs]: cos, then sin */
    float *index_q; /* [n][index_heads][index_dim] normed and rotated */
    float *pooled;  /* [n / ratio][index_dim] */
} plain_run;

/* Close run whatever the status. */
qsa_status plain_open(plain_run *run, const golden_case *c);
void plain_close(plain_run *run);

/* First candidate group and the end of candidates of the query at offset t. */
qsa_status plain_candidates(const plain_run *run, uint32_t t, uint32_t *out_first, uint32_t *out_end);

/* Their scores. out has room for n / ratio. */
qsa_status plain_scores(const plain_run *run, uint32_t t, float *out);

/* Selected groups and tokens of the query; out_groups has room for budget / ratio, out_row for budget + ratio. */
qsa_status plain_row(const plain_run *run, uint32_t t, uint32_t *out_groups, uint32_t *out_n_groups, uint32_t *out_row,
                     uint32_t *out_n);

/* Attention of the query over selected tokens; q, k and v of the case are final. out [q_heads][head_dim]. */
qsa_status plain_output(const plain_run *run, uint32_t t, const uint32_t *row, uint32_t n, float *out);

#endif
