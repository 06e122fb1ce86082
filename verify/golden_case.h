/* The inputs of a recorded case: what an implementation is fed before its results are compared.
 *
 * A stage case (a file of kind stage or ties) has q, k and v as attention reads them, normed and rotated; a ties case
 * has none of them. A path case (a record of canonical.txt) has the projections. Everything else is the same for both:
 * shape, run, index inputs, norm weights, the queries whose results are recorded. */
#ifndef QSA_VERIFY_GOLDEN_CASE_H
#define QSA_VERIFY_GOLDEN_CASE_H

#include "verify/golden_file.h"

#include <qsa/config.h>

typedef struct golden_case {
    bool final_qkv;     /* q, k, v are final: no norm, no rotation (stage); otherwise projections (path) */
    bool has_attention; /* false: q, k, v, q_norm and k_norm are NULL (ties) */
    qsa_config config;  /* one layer: shape, rotary table, eps, K/V type, index profile. Its norms are NULL: the arrays
                           below hold them */

    uint32_t n;             /* tokens of the run */
    int64_t anchor, frame;  /* token t has the logical position anchor + t */
    uint32_t window;        /* tokens; 0: none */
    const int32_t *triples; /* [n][3]: t, h, w, not relative to the frame; NULL: all equal the logical position */

    float *index_q;                     /* [n][index_heads][index_dim], before norm and rotation */
    float *raw_key;                     /* [n][index_dim] */
    float *q;                           /* [n][q_heads][head_dim] */
    float *k, *v;                       /* [n][kv_heads][head_dim] */
    float *index_q_norm, *index_k_norm; /* [index_dim]: effective weights */
    float *q_norm, *k_norm;             /* [head_dim]: effective weights; NULL if final_qkv */

    size_t queries;
    uint32_t *query; /* offsets in the run of the recorded queries, ascending */
} golden_case;

/* Both fill *out, or set the error and leave nothing to free. The file must outlive the case. */
bool golden_case_from_stage(const golden_record *header, golden_case *out, golden_error *error);
bool golden_case_from_path(const golden_record *record, golden_case *out, golden_error *error);

/* Only the config of a file of kind stage, ties or rope: shape, rotary table, eps; K/V type and profile are f32. */
bool golden_case_shape(const golden_record *header, golden_case *out, golden_error *error);

void golden_case_free(golden_case *c);

#endif
