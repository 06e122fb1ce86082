/* SPDX-License-Identifier: Apache-2.0 */
/* Pooled keys and index norms: the arithmetic, then the public functions on plain arrays. */
#include "index/pool.h"

#include "base/elementary.h"
#include "base/float_env.h"
#include "base/limits.h"
#include "base/shape.h"
#include "base/status.h"
#include "index/rotary.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static void round_all(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = qsa_round_bf16(x[i]);
}

/* Sums k0 + k1 + ... in order, starting from k0, then divides by the ratio: a power of two, so the division
 * is exact. */
void qsa_pool_mean(const qsa_pool_rule *rule, const float *raw, float *out_mean)
{
    assert(rule->ratio > 0 && (rule->ratio & (rule->ratio - 1)) == 0 && rule->dim <= QSA_MAX_DIM);
    const float scale = 1.0f / (float)rule->ratio;
    const uint32_t dim = rule->dim;
    memcpy(out_mean, raw, dim * sizeof *raw);
    if (rule->bf16)
        round_all(out_mean, dim);
    for (uint32_t t = 1; t < rule->ratio; t++) {
        const float *key = raw + (size_t)t * dim;
        if (rule->bf16)
            for (uint32_t d = 0; d < dim; d++)
                out_mean[d] += qsa_round_bf16(key[d]);
        else
            for (uint32_t d = 0; d < dim; d++)
                out_mean[d] += key[d];
    }
    for (uint32_t d = 0; d < dim; d++)
        out_mean[d] *= scale;
    if (rule->bf16)
        round_all(out_mean, dim);
}

void qsa_pool_angles(const qsa_pool_rule *rule, const float *cos_sin, float *out_angles)
{
    assert(rule->pairs <= QSA_MAX_DIM / 2);
    memcpy(out_angles, cos_sin, 2 * rule->pairs * sizeof *cos_sin);
    if (rule->bf16)
        round_all(out_angles, 2 * rule->pairs);
}

void qsa_pool_finish(const qsa_kernels *kernels, const qsa_pool_rule *rule, uint32_t n, const float *means,
                     const float *angles, float *out)
{
    assert(n > 0 && 2 * rule->pairs <= rule->dim);
    const qsa_norm_rotate_call call = {.x = means,
                                       .stride = rule->dim,
                                       .heads = n,
                                       .dim = rule->dim,
                                       .weight = rule->weight,
                                       .eps = rule->eps,
                                       .bf16 = rule->bf16,
                                       .pairs = rule->pairs,
                                       .cos = angles,
                                       .sin = angles + rule->pairs,
                                       .angle_stride = 2 * (size_t)rule->pairs,
                                       .out = out};
    kernels->norm_rotate(&call);
}

void qsa_pool_one(const qsa_kernels *kernels, const qsa_pool_rule *rule, const float *raw, const float *cos_sin,
                  float *out)
{
    float mean[QSA_MAX_DIM], angles[QSA_MAX_DIM];
    qsa_pool_mean(rule, raw, mean);
    qsa_pool_angles(rule, cos_sin, angles);
    qsa_pool_finish(kernels, rule, 1, mean, angles, out);
}

/* Heads whose norms run side by side; further heads follow in the next round. */
enum { HEADS_ROUNDED = 8 };

void qsa_index_norm_rotate(const qsa_kernels *kernels, const qsa_norm_rotate_call *call)
{
    assert(call->heads > 0 && call->dim <= QSA_MAX_DIM && 2 * call->pairs <= call->dim);
    if (!call->bf16) {
        kernels->norm_rotate(call);
        return;
    }
    const uint32_t dim = call->dim, pairs = call->pairs;
    float angles[QSA_MAX_DIM], rounded[HEADS_ROUNDED * QSA_MAX_DIM];
    memcpy(angles, call->cos, pairs * sizeof *angles);
    memcpy(angles + pairs, call->sin, pairs * sizeof *angles);
    round_all(angles, 2 * pairs);
    qsa_norm_rotate_call some = *call;
    some.x = rounded;
    some.stride = dim;
    some.cos = angles;
    some.sin = angles + pairs;
    for (uint32_t first = 0; first < call->heads; first += HEADS_ROUNDED) {
        some.heads = call->heads - first < HEADS_ROUNDED ? call->heads - first : HEADS_ROUNDED;
        for (uint32_t h = 0; h < some.heads; h++)
            memcpy(rounded + (size_t)h * dim, call->x + (first + h) * call->stride, dim * sizeof *rounded);
        round_all(rounded, some.heads * dim);
        some.out = call->out + (size_t)first * dim;
        kernels->norm_rotate(&some);
    }
}

/* ---- the public functions on plain arrays ---- */

static qsa_status choose_kernels(const qsa_kernels **out)
{
    const char *wanted = "";
    *out = qsa_kernels_choose(&wanted);
    if (*out == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "QSA_ISA=%s is not available here", wanted);
    return QSA_OK;
}

static const float *weight_or_ones(const float *weight, uint32_t dim, float *ones)
{
    if (weight != NULL)
        return weight;
    for (uint32_t d = 0; d < dim; d++)
        ones[d] = 1;
    return ones;
}

static qsa_status check_weight(const qsa_kernels *kernels, const float *weight, uint32_t dim)
{
    size_t bad = kernels->check(weight, dim, QSA_WEIGHT_LIMIT);
    if (bad < dim)
        return qsa_fail(QSA_E_NONFINITE, "norm weight %zu is not finite or beyond 2^40", bad);
    return QSA_OK;
}

qsa_status qsa_norm_rotate(const float *x, uint32_t heads, uint32_t dim, const float *weight, float eps, uint32_t pairs,
                           const float *cos, const float *sin, qsa_profile profile, float *out)
{
    if (x == NULL || out == NULL || (cos == NULL) != (sin == NULL))
        return qsa_fail(QSA_E_ARGUMENT, "norm_rotate: NULL argument");
    if (dim == 0 || dim > QSA_MAX_DIM || (cos != NULL && pairs > dim / 2) || !(eps > 0) ||
        (unsigned)profile >= QSA_PROFILE_COUNT)
        return qsa_fail(QSA_E_ARGUMENT, "norm_rotate: dim %" PRIu32 ", pairs %" PRIu32 ", eps %g or profile", dim,
                        pairs, (double)eps);
    const qsa_kernels *kernels;
    QSA_TRY(choose_kernels(&kernels));
    float ones[QSA_MAX_DIM], table[QSA_MAX_DIM] = {0}, result[QSA_MAX_DIM];
    weight = weight_or_ones(weight, dim, ones);
    QSA_TRY(check_weight(kernels, weight, dim));
    for (uint32_t h = 0; h < heads; h++) {
        size_t bad = kernels->check(x + (size_t)h * dim, dim, QSA_INPUT_LIMIT);
        if (bad < dim)
            return qsa_fail(QSA_E_NONFINITE, "head %" PRIu32 ", element %zu is not finite or beyond 2^56", h, bad);
    }
    if (cos == NULL)
        pairs = 0;
    for (uint32_t i = 0; i < pairs; i++) {
        table[i] = cos[i];
        table[pairs + i] = sin[i];
    }
    qsa_float_env saved = qsa_float_env_enter();
    for (uint32_t h = 0; h < heads; h++) {
        const qsa_norm_rotate_call call = {.x = x + (size_t)h * dim,
                                           .stride = dim,
                                           .heads = 1,
                                           .dim = dim,
                                           .weight = weight,
                                           .eps = eps,
                                           .bf16 = profile == QSA_PROFILE_BF16,
                                           .pairs = pairs,
                                           .cos = table,
                                           .sin = table + pairs,
                                           .out = result};
        qsa_index_norm_rotate(kernels, &call);
        for (uint32_t d = 0; d < dim; d++)
            out[(size_t)h * dim + d] = result[d];
    }
    qsa_float_env_leave(saved);
    return QSA_OK;
}

static qsa_status check_raw(const qsa_kernels *kernels, const qsa_config *config, const float *raw, size_t n_groups)
{
    for (size_t t = 0; t < n_groups * config->ratio; t++) {
        size_t bad = kernels->check(raw + t * config->index_dim, config->index_dim, QSA_INPUT_LIMIT);
        if (bad < config->index_dim)
            return qsa_fail(QSA_E_NONFINITE, "group %zu, token %zu: raw key is not finite or beyond 2^56",
                            t / config->ratio, t % config->ratio);
    }
    return QSA_OK;
}

static qsa_status check_triples(const qsa_triple *first, size_t n_groups)
{
    for (size_t g = 0; g < n_groups; g++) {
        const int32_t axes[3] = {first[g].t, first[g].h, first[g].w};
        for (int a = 0; a < 3; a++)
            if (axes[a] > QSA_MAX_ROTARY_OFFSET || axes[a] < -QSA_MAX_ROTARY_OFFSET)
                return qsa_fail(QSA_E_LIMIT, "group %zu: rotary coordinate %" PRId32 " is beyond 2^24", g, axes[a]);
    }
    return QSA_OK;
}

qsa_status qsa_pool_keys(const qsa_config *config, const qsa_rotary *rotary, const float *raw, const qsa_triple *first,
                         size_t n_groups, const float *weight, float *out)
{
    QSA_TRY(qsa_shape_check(config));
    if (rotary == NULL || rotary->pairs != config->rotary_dim / 2)
        return qsa_fail(QSA_E_ARGUMENT, "pool_keys: the rotary table is not that of the configuration");
    if (n_groups > 0 && (raw == NULL || first == NULL || out == NULL))
        return qsa_fail(QSA_E_ARGUMENT, "pool_keys: NULL argument");
    const qsa_kernels *kernels;
    QSA_TRY(choose_kernels(&kernels));
    float ones[QSA_MAX_DIM], cos_sin[QSA_MAX_DIM];
    const qsa_pool_rule rule = {.dim = config->index_dim,
                                .ratio = config->ratio,
                                .pairs = rotary->pairs,
                                .eps = config->eps,
                                .bf16 = config->profile == QSA_PROFILE_BF16,
                                .weight = weight_or_ones(weight, config->index_dim, ones)};
    QSA_TRY(check_weight(kernels, rule.weight, rule.dim));
    QSA_TRY(check_raw(kernels, config, raw, n_groups));
    QSA_TRY(check_triples(first, n_groups));
    qsa_float_env saved = qsa_float_env_enter();
    for (size_t g = 0; g < n_groups; g++) {
        qsa_rotary_fill(rotary, first[g], cos_sin);
        qsa_pool_one(kernels, &rule, raw + g * rule.ratio * rule.dim, cos_sin, out + g * rule.dim);
    }
    qsa_float_env_leave(saved);
    return QSA_OK;
}
