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

typedef struct plain_row {
    const qsa_config *config;
    const qsa_kernels *kernels;
    const float *k, *v;
    const uint32_t *tokens; /* [n] or NULL: 0 .. n-1 */
    uint32_t n;
    const void **v_rows; /* [n] */
    float *x;            /* [QSA_HEADS_AT_ONCE][stride] */
    size_t stride;
    float *q; /* [QSA_HEADS_AT_ONCE][head_dim] scaled by c; behind x, as 64 KiB are too much for a stack */
} plain_row;

static size_t row_at(const plain_row *row, uint32_t j, uint32_t kv_head)
{
    size_t token = row->tokens == NULL ? j : row->tokens[j];
    return (token * row->config->kv_heads + kv_head) * row->config->head_dim;
}

static qsa_status check_row(const plain_row *row, const float *q)
{
    const qsa_config *config = row->config;
    for (uint32_t j = 1; row->tokens != NULL && j < row->n; j++)
        if (row->tokens[j] <= row->tokens[j - 1])
            return qsa_fail(QSA_E_ARGUMENT, "attend: row is not ascending at place %" PRIu32, j);
    for (uint32_t h = 0; h < config->q_heads; h++)
        if (row->kernels->check(q + (size_t)h * config->head_dim, config->head_dim, QSA_INPUT_LIMIT) < config->head_dim)
            return qsa_fail(QSA_E_NONFINITE, "attend: q of head %" PRIu32 " is not finite or beyond 2^56", h);
    for (uint32_t j = 0; j < row->n; j++) {
        size_t width = (size_t)config->kv_heads * config->head_dim;
        if (row->kernels->check(row->k + row_at(row, j, 0), width, QSA_INPUT_LIMIT) < width ||
            row->kernels->check(row->v + row_at(row, j, 0), width, QSA_INPUT_LIMIT) < width)
            return qsa_fail(QSA_E_NONFINITE,
                            "attend: K or V at place %" PRIu32 " of the row is not finite or beyond 2^56", j);
    }
    return QSA_OK;
}

/* QK^T of `heads` heads with four tokens at a time; lanes past the end repeat the last token. */
static void dots(const plain_row *row, uint32_t kv_head, const float *q, uint32_t heads)
{
    const uint32_t dim = row->config->head_dim;
    float block[QSA_MAX_DIM * QSA_BLOCK_TOKENS];
    for (uint32_t j = 0; j < row->n; j += QSA_BLOCK_TOKENS) {
        for (uint32_t t = 0; t < QSA_BLOCK_TOKENS; t++) {
            uint32_t place = j + t < row->n ? j + t : row->n - 1;
            const float *k = row->k + row_at(row, place, kv_head);
            for (uint32_t d = 0; d < dim; d++)
                block[d * QSA_BLOCK_TOKENS + t] = k[d];
        }
        const void *address = block;
        const qsa_qk_call qk = {q, heads, dim, &address, 1, row->x + j, row->stride};
        row->kernels->qk(&qk, QSA_ELEMENT_F32);
    }
}

static void attend_kv_head(const plain_row *row, uint32_t kv_head, const float *q, float *out)
{
    const qsa_config *config = row->config;
    const uint32_t dim = config->head_dim, shared = config->q_heads / config->kv_heads;
    float sum[QSA_HEADS_AT_ONCE];
    const float c = qsa_query_scale(dim);
    for (uint32_t j = 0; j < row->n; j++)
        row->v_rows[j] = row->v + row_at(row, j, kv_head);
    for (uint32_t first = 0; first < shared; first += QSA_HEADS_AT_ONCE) {
        uint32_t heads = shared - first < QSA_HEADS_AT_ONCE ? shared - first : QSA_HEADS_AT_ONCE;
        size_t at = (size_t)(kv_head * shared + first) * dim;
        for (uint32_t i = 0; i < heads * dim; i++)
            row->q[i] = q[at + i] * c;
        dots(row, kv_head, row->q, heads);
        const qsa_softmax_call softmax = {row->x, row->stride, heads, row->n, sum};
        const qsa_pv_call pv = {.p = row->x,
                                .stride = row->stride,
                                .sum = sum,
                                .heads = heads,
                                .dim = dim,
                                .n = row->n,
                                .v = row->v_rows,
                                .out = out + at,
                                .out_stride = dim};
        row->kernels->softmax(&softmax);
        row->kernels->pv(&pv, QSA_ELEMENT_F32);
    }
}

static qsa_status attend_plain(plain_row *row, const float *q, float *out)
{
    const char *wanted = "";
    row->kernels = qsa_kernels_choose(&wanted);
    if (row->kernels == NULL)
        return qsa_fail(QSA_E_UNSUPPORTED, "QSA_ISA=%s is not available here", wanted);
    QSA_TRY(check_row(row, q));
    row->stride = ((size_t)row->n + QSA_BLOCK_TOKENS - 1) / QSA_BLOCK_TOKENS * QSA_BLOCK_TOKENS;
    const uint64_t x_bytes = (row->stride + row->config->head_dim) * QSA_HEADS_AT_ONCE * sizeof(float);
    const uint64_t v_bytes = row->n * sizeof(void *);
    row->x = qsa_allocate(&qsa_default_allocator, x_bytes);
    row->v_rows = qsa_allocate(&qsa_default_allocator, v_bytes);
    qsa_status status = QSA_OK;
    if (row->x == NULL || row->v_rows == NULL) {
        status = qsa_fail(QSA_E_MEMORY, "attend: no memory for a row of %" PRIu32 " tokens", row->n);
    } else {
        row->q = row->x + row->stride * QSA_HEADS_AT_ONCE;
        qsa_float_env saved = qsa_float_env_enter();
        for (uint32_t kv_head = 0; kv_head < row->config->kv_heads; kv_head++)
            attend_kv_head(row, kv_head, q, out);
        qsa_float_env_leave(saved);
    }
    qsa_release(&qsa_default_allocator, row->x, x_bytes);
    qsa_release(&qsa_default_allocator, row->v_rows, v_bytes);
    return status;
}

qsa_status qsa_attend_row(const qsa_config *config, const float *q, const float *k, const float *v, const uint32_t *row,
                          uint32_t n, float *out)
{
    QSA_TRY(qsa_shape_check(config));
    if (q == NULL || k == NULL || v == NULL || row == NULL || out == NULL || n == 0)
        return qsa_fail(QSA_E_ARGUMENT, "attend: NULL argument or an empty row");
    plain_row plain = {.config = config, .k = k, .v = v, .tokens = row, .n = n};
    return attend_plain(&plain, q, out);
}

qsa_status qsa_attend_dense(const qsa_config *config, const float *q, const float *k, const float *v, uint32_t n,
                            float *out)
{
    QSA_TRY(qsa_shape_check(config));
    if (q == NULL || k == NULL || v == NULL || out == NULL || n == 0)
        return qsa_fail(QSA_E_ARGUMENT, "attend: NULL argument or an empty row");
    plain_row plain = {.config = config, .k = k, .v = v, .tokens = NULL, .n = n};
    return attend_plain(&plain, q, out);
}
