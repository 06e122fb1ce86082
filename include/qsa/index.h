/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary tables, norms and pooled index keys: the arithmetic of SPEC sections 3 and 6 on plain arrays.
 *
 * For engines that keep their own cache, and for tests. Everything is f32; bit for bit the same on every instruction
 * set. Values of the bf16 profile come out as f32 that bf16 represents exactly. */
#ifndef QSA_INDEX_H
#define QSA_INDEX_H

#include <qsa/config.h>
#include <qsa/run.h>

QSA_BEGIN_DECLS

/* Frequencies of one configuration; a plain value. */
typedef struct qsa_rotary {
    uint32_t pairs;         /* rotary_dim / 2 */
    float attention_factor; /* on cos and sin */
    float inverse_frequency[QSA_MAX_DIM / 2];
    uint8_t coordinate[QSA_MAX_DIM / 2]; /* 0: t, 1: h, 2: w */
} qsa_rotary;

/* Errors: QSA_E_ARGUMENT / QSA_E_LIMIT, naming the field of config. */
QSA_API qsa_status qsa_rotary_init(const qsa_config *config, qsa_rotary *out_rotary);

/* cos and sin of one triple, relative to the frame: out_cos, out_sin [pairs], times the attention factor.
 * Errors: QSA_E_LIMIT if a coordinate is more than 2^24 from 0. */
QSA_API qsa_status qsa_rotary_cos_sin(const qsa_rotary *rotary, qsa_triple triple, float *out_cos, float *out_sin);

/* Norm, then rotation, of `heads` vectors of one token that share a weight: what happens to q, k and the index query.
 * x [heads][dim], weight [dim] (effective; NULL: ones), cos, sin [pairs] or both NULL (no rotation), out [heads][dim]
 * (may be x). profile QSA_PROFILE_BF16 rounds as the index does (SPEC section 3); main q and k take QSA_PROFILE_F32.
 * Errors: QSA_E_NONFINITE, QSA_E_ARGUMENT. */
QSA_API qsa_status qsa_norm_rotate(const float *x, uint32_t heads, uint32_t dim, const float *weight, float eps,
                                   uint32_t pairs, const float *cos, const float *sin, qsa_profile profile, float *out);

/* Pooled keys of n_groups complete groups. raw [n_groups * ratio][dim]; first [n_groups] triples of each group's first
 * token, relative to the frame; weight [dim] or NULL; out [n_groups][dim]. Shape, eps and profile from config.
 * Errors: QSA_E_NONFINITE (naming group and token), QSA_E_ARGUMENT, QSA_E_LIMIT. */
QSA_API qsa_status qsa_pool_keys(const qsa_config *config, const qsa_rotary *rotary, const float *raw,
                                 const qsa_triple *first, size_t n_groups, const float *weight, float *out);

QSA_END_DECLS
#endif
