/* SPDX-License-Identifier: Apache-2.0 */
/* Pooled index keys: mean, norm, rotate (SPEC section 3). */
#ifndef QSA_INDEX_POOL_H
#define QSA_INDEX_POOL_H

#include "kernels/kernels.h"

#include <qsa/config.h>
#include <qsa/index.h>

/* What a pooled key depends on besides its raw keys. */
typedef struct qsa_pool_rule {
    uint32_t dim, ratio, pairs;
    float eps;
    bool bf16;           /* profile */
    const float *weight; /* [dim] effective */
} qsa_pool_rule;

/* Pooling has two steps. The first is per group: the mean of its raw keys [ratio][dim] in order, rounded here to the
 * profile's type (stored keys already are), and cos_sin [2 * pairs] of its first token, rounded as the profile says. */
void qsa_pool_mean(const qsa_pool_rule *rule, const float *raw, float *out_mean);
void qsa_pool_angles(const qsa_pool_rule *rule, const float *cos_sin, float *out_angles);
/* The second takes n groups at once, so that their norms run side by side: means [n][dim], angles [n][2 * pairs]; out
 * [n][dim], values of the profile's type. */
void qsa_pool_finish(const qsa_kernels *kernels, const qsa_pool_rule *rule, uint32_t n, const float *means,
                     const float *angles, float *out);

/* Both steps, for one group. */
void qsa_pool_one(const qsa_kernels *kernels, const qsa_pool_rule *rule, const float *raw, const float *cos_sin,
                  float *out);

/* Norm and rotation as the index defines them: in the bf16 profile x, cos and sin are rounded first. All heads
 * rotate alike. */
void qsa_index_norm_rotate(const qsa_kernels *kernels, const qsa_norm_rotate_call *call);

#endif
