/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary tables, norms and pooled index keys: the arithmetic of SPEC sections 3 and 6 on plain arrays.
 *
 * For engines that keep their own cache, and for tests. Everything is f32, with the same bits on every instruction set.
 * Results of the bf16 profile are f32 values that bf16 represents exactly. */
#ifndef QSA_INDEX_H
#define QSA_INDEX_H

#include <qsa/config.h>
#include <qsa/run.h>

QSA_BEGIN_DECLS

/* The rotary frequencies of a configuration; a plain value. */
typedef struct qsa_rotary {
    uint32_t pairs;         /* rotary_dim / 2 */
    float attention_factor; /* multiplies cos and sin */
    float inverse_frequency[QSA_MAX_DIM / 2];
    uint8_t coordinate[QSA_MAX_DIM / 2]; /* 0: t, 1: h, 2: w */
} qsa_rotary;

/* The table of SPEC section 6, YaRN included. Errors: QSA_E_ARGUMENT, QSA_E_LIMIT, naming the field. */
QSA_API qsa_status qsa_rotary_init(const qsa_config *config, qsa_rotary *out_rotary);

/* cos and sin of one triple, relative to the frame: out_cos, out_sin [pairs], times the attention factor.
 * Errors: QSA_E_LIMIT if a coordinate is more than 2^24 from 0. */
QSA_API qsa_status qsa_rotary_cos_sin(const qsa_rotary *rotary, qsa_triple triple, float *out_cos, float *out_sin);

/* RMS norm, then rotation, of the `heads` vectors of one token: q, k or index query (SPEC section 3, steps 2 and 3).
 * x [heads][dim]; weight [dim], effective, NULL: ones; cos, sin [pairs], both NULL: no rotation; out [heads][dim], may
 * be x. QSA_PROFILE_BF16 rounds as the index does; main q and k use QSA_PROFILE_F32.
 * Errors: QSA_E_ARGUMENT, QSA_E_NONFINITE. */
QSA_API qsa_status qsa_norm_rotate(const float *x, uint32_t heads, uint32_t dim, const float *weight, float eps,
                                   uint32_t pairs, const float *cos, const float *sin, qsa_profile profile, float *out);

/* Pooled keys of n_groups complete groups (SPEC section 3). Shape, eps and profile come from config.
 * raw [n_groups * ratio][index_dim]; first [n_groups], the triple of each group's first token, relative to the frame;
 * weight [index_dim], effective, NULL: ones; out [n_groups][index_dim].
 * Errors: QSA_E_ARGUMENT, QSA_E_LIMIT, QSA_E_NONFINITE (naming group and token). */
QSA_API qsa_status qsa_pool_keys(const qsa_config *config, const qsa_rotary *rotary, const float *raw,
                                 const qsa_triple *first, size_t n_groups, const float *weight, float *out);

QSA_END_DECLS
#endif
