/* SPDX-License-Identifier: Apache-2.0 */
/* The naive second implementation of SPEC.md: arrays and loops, one line per rule, nothing tuned. It shares no code
 * with the library and includes nothing of it; `qsa verify` and the tests compare the two bit by bit.
 *
 * One oracle_run is one layer of one sequence. Tokens are appended; every result can be computed at any time. A token
 * is identified by its offset t in the run (0 is the anchor), a group by its number j: tokens rj .. rj+r-1. Compile
 * with -ffp-contract=off. Out of memory it aborts. */
#ifndef QSA_ORACLE_ORACLE_H
#define QSA_ORACLE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum oracle_kv { ORACLE_F32, ORACLE_BF16, ORACLE_F16, ORACLE_Q8_0 } oracle_kv;

typedef struct oracle_shape {
    int q_heads, kv_heads, head_dim; /* head_dim also of k and v */
    int index_heads, index_dim;
    int rotary_dim, sections[3];
    int ratio, budget; /* r, and the budget in tokens */
    float theta, eps;
    bool index_bf16; /* index profile bf16, otherwise f32 */
    oracle_kv kv_type;
    bool final_qk; /* q and k are already normed and rotated (stage cases) */

    bool yarn;
    float yarn_factor;
    double yarn_context, yarn_beta_fast, yarn_beta_slow;
    bool yarn_has_attention_factor; /* the file has the whole factor */
    float yarn_attention_factor;

    const float *index_q_norm, *index_k_norm; /* [index_dim]: effective weights, not copied */
    const float *q_norm, *k_norm;             /* [head_dim]; unused with final_qk */
} oracle_shape;

typedef struct oracle_tokens { /* n tokens' projections */
    const float *index_q;      /* [n][index_heads][index_dim] */
    const float *raw_key;      /* [n][index_dim] */
    const float *q;            /* [n][q_heads][head_dim]; q, k, v may be NULL together: then there is no attention */
    const float *k, *v;        /* [n][kv_heads][head_dim] */
    const int32_t *triples;    /* [n][3]: t, h, w; NULL: all three equal the logical position */
} oracle_tokens;

typedef struct oracle_refusal { /* What was refused: the first token, and its first tensor in this order */
    int token;                  /* counted from the first one of the append */
    const char *tensor;         /* triples, index_q, raw_key, q, k, v */
} oracle_refusal;

typedef struct oracle_run {
    const oracle_shape *shape; /* must outlive the run */
    int64_t anchor, frame;
    int window; /* tokens; 0: none */
    int n;      /* tokens so far */
    /* results, [n][...] */
    float *cos_sin;  /* [n][rotary_dim/2][2]: cos, sin times the attention factor, not rounded to bf16 */
    float *raw_key;  /* [n][index_dim]: as stored */
    float *pooled;   /* [n / ratio][index_dim] */
    float *index_q;  /* [n][index_heads][index_dim]: normed and rotated */
    float *main_q;   /* [n][q_heads][head_dim]: normed and rotated */
    float *k_stored; /* [n][kv_heads][head_dim]: normed, rotated, rounded to the K/V type, widened */
    float *v_stored; /* [n][kv_heads][head_dim] */
} oracle_run;

/* The run. append computes everything per token and per complete group; if it refuses, nothing has changed. truncate
 * keeps the first n tokens. */
void oracle_open(oracle_run *run, const oracle_shape *shape, int64_t anchor, int64_t frame, int window);
bool oracle_append(oracle_run *run, int n, const oracle_tokens *tokens, oracle_refusal *out_refusal);
void oracle_truncate(oracle_run *run, int n);
void oracle_close(oracle_run *run);

/* The query at offset t: its candidate groups [first, end); their scores [end - first]; the groups it selects, at most
 * budget / ratio, ascending; the tokens it attends to, at most oracle_row_max, ascending; attention over any ascending
 * list of tokens, [q_heads][head_dim]. */
int oracle_first_group(const oracle_run *run, int t);
int oracle_end_group(const oracle_run *run, int t);
void oracle_scores(const oracle_run *run, int t, float *out_scores);
int oracle_groups(const oracle_run *run, int t, int32_t *out_groups);
int oracle_row_max(const oracle_shape *shape); /* budget + ratio - 1 */
int oracle_row(const oracle_run *run, int t, int32_t *out_row);
/* The tokens of any selected groups and the tail of the query at offset t; returns how many. */
int oracle_row_of(const oracle_shape *shape, int t, const int32_t *groups, int count, int32_t *out_row);
void oracle_attend(const oracle_run *run, int t, const int32_t *row, int row_size, float *out);
void oracle_output(const oracle_run *run, int t, float *out); /* over its own selected tokens */

/* The parts. */
float oracle_e2(float x);
void oracle_sin_cos(float angle, float *out_sin, float *out_cos);
float oracle_power(float theta, float e);                       /* theta^e, 0 <= e < 1 */
void oracle_frequencies(const oracle_shape *shape, float *out); /* [rotary_dim/2] */
float oracle_attention_factor(const oracle_shape *shape);
void oracle_cos_sin(const oracle_shape *shape, const int32_t triple[3], float *out); /* relative to the frame */
float oracle_to_bf16(float x);                                                       /* to nearest even, then widened */
float oracle_to_f16(float x);
bool oracle_store(oracle_kv type, int size, const float *x, float *out); /* false: the type cannot hold it */
void oracle_norm(int size, float eps, const float *x, const float *weight, float *out);
void oracle_rotate(int rotary_dim, const float *cos_sin, bool bf16, float *x); /* in place */
void oracle_pool(const oracle_shape *shape, const float *raw_keys, const float *cos_sin,
                 float *out); /* [ratio][index_dim] */
/* x and out [index_heads][index_dim] of one token: normed and rotated. */
void oracle_index_query(const oracle_shape *shape, const float *x, const float *cos_sin, float *out);
float oracle_score(const oracle_shape *shape, const float *index_q, const float *pooled_key);
/* The best `keep` of `count` scores by (score descending, number ascending), as ascending numbers; returns how many. */
int oracle_select(int count, const float *scores, int keep, int32_t *out_chosen);

#endif
