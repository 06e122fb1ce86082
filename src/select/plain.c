/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions on plain arrays. */
#include "base/float_env.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/status.h"
#include "kernels/kernels.h"
#include "select/select.h"

#include <inttypes.h>
#include <math.h>
#include <qsa/select.h>

static qsa_status check_vectors(const qsa_kernels *kernels, const char *name, const float *x, size_t n, uint32_t dim)
{
    for (size_t i = 0; i < n; i++)
        if (kernels->check(x + i * dim, dim, QSA_INPUT_LIMIT) < dim)
            return qsa_fail(QSA_E_NONFINITE, "%s %zu is not finite or beyond 2^56", name, i);
    return QSA_OK;
}

qsa_status qsa_score(const float *query, uint32_t heads, uint32_t dim, const float *pooled, size_t n_groups,
                     float *out_scores)
{
    if (query == NULL || (n_groups > 0 && (pooled == NULL || out_scores == NULL)))
        return qsa_fail(QSA_E_ARGUMENT, "score: NULL argument");
    if (dim == 0 || dim > QSA_MAX_DIM || heads == 0 || heads > QSA_MAX_Q_HEADS)
        return qsa_fail(QSA_E_ARGUMENT, "score: %" PRIu32 " heads of %" PRIu32, heads, dim);
    const char *wanted = "";
    const qsa_kernels *kernels = qsa_kernels_choose(&wanted);
    if (kernels == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "QSA_ISA=%s is not available here", wanted);
    QSA_TRY(check_vectors(kernels, "index query head", query, heads, dim));
    QSA_TRY(check_vectors(kernels, "pooled key of group", pooled, n_groups, dim));
    qsa_float_env saved = qsa_float_env_enter();
    for (size_t g = 0; g < n_groups; g++) { /* a tile of one group is a plain vector */
        const void *tile = pooled + g * dim;
        const qsa_score_call call = {query, 1, heads, dim, &tile, 1, 1, out_scores + g};
        kernels->score(&call, QSA_ELEMENT_F32);
    }
    qsa_float_env_leave(saved);
    return QSA_OK;
}

static qsa_status check_scores(const float *scores, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(scores[i] >= 0) || isinf(scores[i]) || signbit(scores[i]))
            return qsa_fail(QSA_E_NONFINITE, "score of group %zu is %g, not a number >= +0", i, (double)scores[i]);
    return QSA_OK;
}

qsa_status qsa_select(const float *scores, size_t n, uint32_t k, uint32_t *out_groups, uint32_t *out_n)
{
    if ((n > 0 && (scores == NULL || out_groups == NULL)) || out_n == NULL || k == 0)
        return qsa_fail(QSA_E_ARGUMENT, "select: NULL argument or k = 0");
    if (k > QSA_MAX_BUDGET || n > UINT32_MAX)
        return qsa_fail(QSA_E_LIMIT, "select: k %" PRIu32 " is above %d, or too many groups", k, QSA_MAX_BUDGET);
    QSA_TRY(check_scores(scores, n));
    uint32_t capacity = qsa_selection_capacity(k);
    uint64_t bytes = (uint64_t)capacity * sizeof(qsa_candidate);
    qsa_candidate *buffer = qsa_allocate(&qsa_default_allocator, bytes);
    if (buffer == NULL)
        return qsa_fail(QSA_E_MEMORY, "select: no memory for %" PRIu32 " candidates", capacity);
    qsa_selection selection;
    qsa_selection_begin(&selection, qsa_kernels_available(0), buffer, capacity, k); /* the scalar kernels */
    qsa_selection_offer(&selection, scores, 0, (uint32_t)n);
    qsa_selection_shrink(&selection);
    for (uint32_t i = 0; i < selection.count; i++)
        out_groups[i] = buffer[i].group;
    *out_n = selection.count;
    qsa_release(&qsa_default_allocator, buffer, bytes);
    return QSA_OK;
}

qsa_status qsa_selected_tokens(const uint32_t *groups, uint32_t n_groups, uint32_t ratio, uint64_t n_tokens,
                               uint32_t *out_tokens, uint32_t *out_n)
{
    if ((n_groups > 0 && groups == NULL) || out_tokens == NULL || out_n == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "selected tokens: NULL argument");
    if (ratio == 0 || ratio > QSA_MAX_RATIO || (ratio & (ratio - 1)) != 0 || n_tokens > UINT32_MAX)
        return qsa_fail(QSA_E_ARGUMENT,
                        "selected tokens: ratio %" PRIu32 " is not a power of two up to %d, or too many tokens", ratio,
                        QSA_MAX_RATIO);
    uint64_t complete = n_tokens / ratio;
    for (uint32_t i = 0; i < n_groups; i++)
        if (groups[i] >= complete || (i > 0 && groups[i] <= groups[i - 1]))
            return qsa_fail(QSA_E_ARGUMENT,
                            "selected tokens: group %" PRIu32 " at place %" PRIu32 " is out of range or order",
                            groups[i], i);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_groups; i++)
        for (uint32_t t = 0; t < ratio; t++)
            out_tokens[n++] = groups[i] * ratio + t;
    for (uint64_t t = complete * ratio; t < n_tokens; t++)
        out_tokens[n++] = (uint32_t)t;
    *out_n = n;
    return QSA_OK;
}
