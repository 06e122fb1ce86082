/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions on plain arrays: they pack K four tokens at a time and run the cache's kernels. */
#include "attend/attend.h"
#include "base/float_env.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/shape.h"
#include "base/status.h"

#include <inttypes.h>
#include <qsa/attend.h>

typedef struct plain_query {
    const qsa_config *config;
    const qsa_kernels *kernels;
    const float *k, *v;
    const uint32_t *tokens; /* [n] or NULL: 0 .. n-1 */
    uint32_t n;
    const void **v_rows; /* [n] */
    float *x;            /* [QSA_HEADS_AT_ONCE][stride] */
    size_t stride;
    float *q; /* [QSA_HEADS_AT_ONCE][head_dim] scaled by c; behind x, as 64 KiB are too much for a stack */
} plain_query;

static size_t kv_at(const plain_query *query, uint32_t j, uint32_t kv_head)
{
    size_t token = query->tokens == NULL ? j : query->tokens[j];
    return (token * query->config->kv_heads + kv_head) * query->config->head_dim;
}

static qsa_status check_query(const plain_query *query, const float *q)
{
    const qsa_config *config = query->config;
    for (uint32_t j = 1; query->tokens != NULL && j < query->n; j++)
        if (query->tokens[j] <= query->tokens[j - 1])
            return qsa_fail(QSA_E_ARGUMENT, "attend: tokens are not ascending at place %" PRIu32, j);
    for (uint32_t h = 0; h < config->q_heads; h++)
        if (query->kernels->check(q + (size_t)h * config->head_dim, config->head_dim, QSA_INPUT_LIMIT) <
            config->head_dim)
            return qsa_fail(QSA_E_NONFINITE, "attend: q of head %" PRIu32 " is not finite or beyond 2^56", h);
    for (uint32_t j = 0; j < query->n; j++) {
        size_t width = (size_t)config->kv_heads * config->head_dim;
        if (query->kernels->check(query->k + kv_at(query, j, 0), width, QSA_INPUT_LIMIT) < width ||
            query->kernels->check(query->v + kv_at(query, j, 0), width, QSA_INPUT_LIMIT) < width)
            return qsa_fail(QSA_E_NONFINITE,
                            "attend: K or V of selected token %" PRIu32 " is not finite or beyond 2^56", j);
    }
    return QSA_OK;
}

/* QK^T of `heads` heads with four tokens at a time; lanes past the end repeat the last token. */
static void dots(const plain_query *query, uint32_t kv_head, const float *q, uint32_t heads)
{
    const uint32_t dim = query->config->head_dim;
    float block[QSA_MAX_DIM * QSA_BLOCK_TOKENS];
    for (uint32_t j = 0; j < query->n; j += QSA_BLOCK_TOKENS) {
        for (uint32_t t = 0; t < QSA_BLOCK_TOKENS; t++) {
            uint32_t place = j + t < query->n ? j + t : query->n - 1;
            const float *k = query->k + kv_at(query, place, kv_head);
            for (uint32_t d = 0; d < dim; d++)
                block[d * QSA_BLOCK_TOKENS + t] = k[d];
        }
        const void *address = block;
        const qsa_qk_call qk = {q, heads, dim, &address, 1, query->x + j, query->stride};
        query->kernels->qk(&qk, QSA_ELEMENT_F32);
    }
}

static void attend_kv_head(const plain_query *query, uint32_t kv_head, const float *q, float *out)
{
    const qsa_config *config = query->config;
    const uint32_t dim = config->head_dim, shared = config->q_heads / config->kv_heads;
    float sum[QSA_HEADS_AT_ONCE];
    const float c = qsa_query_scale(dim);
    for (uint32_t j = 0; j < query->n; j++)
        query->v_rows[j] = query->v + kv_at(query, j, kv_head);
    for (uint32_t first = 0; first < shared; first += QSA_HEADS_AT_ONCE) {
        uint32_t heads = shared - first < QSA_HEADS_AT_ONCE ? shared - first : QSA_HEADS_AT_ONCE;
        size_t at = (size_t)(kv_head * shared + first) * dim;
        for (uint32_t i = 0; i < heads * dim; i++)
            query->q[i] = q[at + i] * c;
        dots(query, kv_head, query->q, heads);
        const qsa_softmax_call softmax = {query->x, query->stride, heads, query->n, sum};
        const qsa_pv_call pv = {.p = query->x,
                                .stride = query->stride,
                                .sum = sum,
                                .heads = heads,
                                .dim = dim,
                                .n = query->n,
                                .v = query->v_rows,
                                .out = out + at,
                                .out_stride = dim};
        query->kernels->softmax(&softmax);
        query->kernels->pv(&pv, QSA_ELEMENT_F32);
    }
}

static qsa_status attend_plain(plain_query *query, const float *q, float *out)
{
    const char *wanted = "";
    query->kernels = qsa_kernels_choose(&wanted);
    if (query->kernels == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "QSA_ISA=%s is not available here", wanted);
    QSA_TRY(check_query(query, q));
    query->stride = ((size_t)query->n + QSA_BLOCK_TOKENS - 1) / QSA_BLOCK_TOKENS * QSA_BLOCK_TOKENS;
    const uint64_t x_bytes = (query->stride + query->config->head_dim) * QSA_HEADS_AT_ONCE * sizeof(float);
    const uint64_t v_bytes = query->n * sizeof(void *);
    query->x = qsa_allocate(&qsa_default_allocator, x_bytes);
    query->v_rows = qsa_allocate(&qsa_default_allocator, v_bytes);
    qsa_status status = QSA_OK;
    if (query->x == NULL || query->v_rows == NULL) {
        status = qsa_fail(QSA_E_MEMORY, "attend: no memory for %" PRIu32 " tokens", query->n);
    } else {
        query->q = query->x + query->stride * QSA_HEADS_AT_ONCE;
        qsa_float_env saved = qsa_float_env_enter();
        for (uint32_t kv_head = 0; kv_head < query->config->kv_heads; kv_head++)
            attend_kv_head(query, kv_head, q, out);
        qsa_float_env_leave(saved);
    }
    qsa_release(&qsa_default_allocator, query->x, x_bytes);
    qsa_release(&qsa_default_allocator, query->v_rows, v_bytes);
    return status;
}

qsa_status qsa_attend_selected(const qsa_config *config, const float *q, const float *k, const float *v,
                               const uint32_t *tokens, uint32_t n, float *out)
{
    QSA_TRY(qsa_shape_check(config));
    if (q == NULL || k == NULL || v == NULL || tokens == NULL || out == NULL || n == 0)
        return qsa_fail(QSA_E_ARGUMENT, "attend: NULL argument or no token");
    plain_query plain = {.config = config, .k = k, .v = v, .tokens = tokens, .n = n};
    return attend_plain(&plain, q, out);
}

qsa_status qsa_attend_dense(const qsa_config *config, const float *q, const float *k, const float *v, uint32_t n,
                            float *out)
{
    QSA_TRY(qsa_shape_check(config));
    if (q == NULL || k == NULL || v == NULL || out == NULL || n == 0)
        return qsa_fail(QSA_E_ARGUMENT, "attend: NULL argument or no token");
    plain_query plain = {.config = config, .k = k, .v = v, .tokens = NULL, .n = n};
    return attend_plain(&plain, q, out);
}
