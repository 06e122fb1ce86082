/* SPDX-License-Identifier: Apache-2.0 */
/* Phases 3 and 4: attention over the selected tokens. A kv query is a query with one kv head: all its query heads read
 * the same K and V.
 *
 * With at least as many kv queries as parts, phase 4 does everything: a task is a range of the heads of one kv query,
 * in order, so that a part goes through neighbouring queries and finds their K and V in cache. With fewer, kv queries
 * are split: a task of phase 3 is a range of the selected tokens, QK^T of all heads, kept in store->qk; a task of phase
 * 4 is softmax of a range of heads and PV of a range of dimensions. No sum is cut. */
#include "device/host/phases.h"

#include <assert.h>
#include <string.h>

static uint32_t ceil_divide(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* The tasks of a step. */
typedef struct attend_plan {
    uint32_t kv_queries, heads; /* heads: of a kv query */
    bool split;
    uint32_t token_ranges;            /* of a kv query in phase 3, if it is split */
    uint32_t dim_ranges, head_ranges; /* in phase 4 */
} attend_plan;

static attend_plan plan_tasks(const qsa_host_context *c)
{
    const qsa_config *config = c->store->base.config;
    const uint32_t parts = c->parts, chunks = config->head_dim / QSA_CHUNK_DIMS;
    attend_plan plan = {.kv_queries = c->batch->n_tokens * config->kv_heads,
                        .heads = config->q_heads / config->kv_heads,
                        .dim_ranges = 1};
    plan.head_ranges = ceil_divide(plan.heads, QSA_HEADS_AT_ONCE);
    plan.split = plan.kv_queries < parts;
    if (!plan.split)
        return plan;
    /* Where kv queries do not divide the parts, ranges are more and smaller, or one part would have two. */
    plan.token_ranges =
        parts % plan.kv_queries == 0 ? parts / plan.kv_queries : ceil_divide(2 * (uint64_t)parts, plan.kv_queries);
    /* A range of dimensions costs softmax of its heads once more, a range of heads a pass over V: both are split. */
    const uint32_t half = plan.token_ranges / 2;
    plan.dim_ranges = half < 1 || chunks < 1 ? 1 : half < chunks ? half : chunks;
    const uint32_t wanted = ceil_divide(plan.token_ranges, plan.dim_ranges);
    if (wanted > plan.head_ranges)
        plan.head_ranges = wanted < plan.heads ? wanted : plan.heads;
    assert(plan.dim_ranges >= 1 && plan.head_ranges <= plan.heads);
    return plan;
}

/* Some heads of a kv query. */
typedef struct head_range {
    uint32_t kv_query, token, kv_head;
    uint32_t first, n; /* among the heads of the kv query */
    uint32_t q_head;   /* the first, among all */
} head_range;

/* The heads of a kv query from the first-th on, before end: as many as share K and V. */
static head_range heads_of(const qsa_host_context *c, const attend_plan *plan, uint32_t kv_query, uint32_t first,
                           uint32_t end)
{
    assert(kv_query < plan->kv_queries && first < end && end <= plan->heads);
    const uint32_t kv_heads = c->store->base.config->kv_heads, kv_head = kv_query % kv_heads;
    return (head_range){.kv_query = kv_query,
                        .token = kv_query / kv_heads,
                        .kv_head = kv_head,
                        .first = first,
                        .n = end - first < QSA_HEADS_AT_ONCE ? end - first : QSA_HEADS_AT_ONCE,
                        .q_head = kv_head * plan->heads + first};
}

/* q of the heads, normed, rotated, times c, to scratch. */
static void load_q(const qsa_host_context *c, const head_range *heads)
{
    const qsa_store *base = &c->store->base;
    const qsa_config *config = base->config;
    const qsa_strided *in = &c->io->tensors.q;
    const uint32_t pairs = base->rotary->pairs;
    const float *angles = qsa_batch_cos_sin(c->batch, heads->token, pairs), scale = qsa_query_scale(config->head_dim);
    float *q = c->scratch->attend.q;
    const qsa_norm_rotate_call call = {.x =
                                           in->data + heads->token * in->token_stride + heads->q_head * in->head_stride,
                                       .stride = in->head_stride,
                                       .heads = heads->n,
                                       .dim = config->head_dim,
                                       .weight = qsa_store_weights(base, c->io->layer).q,
                                       .eps = config->eps,
                                       .pairs = pairs,
                                       .cos = angles,
                                       .sin = angles + pairs,
                                       .out = q};
    base->kernels->norm_rotate(&call);
    for (uint32_t i = 0; i < heads->n * config->head_dim; i++)
        q[i] *= scale;
}

/* ---- phase 3: QK^T of kv queries that are split ---- */

/* QK^T of one head over all selected tokens. */
static float *qk_at(const qsa_host_context *c, const attend_plan *plan, uint32_t kv_query, uint32_t head)
{
    assert(kv_query < plan->kv_queries && head < plan->heads);
    return c->store->qk + ((size_t)kv_query * plan->heads + head) * c->scratch->attend.x_stride;
}

static void qk_of_token_range(const qsa_host_context *c, const attend_plan *plan, uint32_t kv_query, uint32_t range)
{
    assert(plan->split && range < plan->token_ranges);
    const qsa_store *base = &c->store->base;
    qsa_attend_scratch *scratch = &c->scratch->attend;
    head_range heads = heads_of(c, plan, kv_query, 0, plan->heads);
    uint64_t begin, end;
    qsa_share(c->store->n_selected[heads.token] + 1, range, plan->token_ranges, &begin,
              &end); /* groups, then the tail */
    qsa_host_addresses(c, heads.token, heads.kv_head, (uint32_t)begin, (uint32_t)end, &scratch->selected);
    if (scratch->selected.n == 0)
        return;
    const uint32_t first_token = (uint32_t)begin * base->layout->config.ratio;
    for (uint32_t h = 0; h < plan->heads; h += heads.n) {
        heads = heads_of(c, plan, kv_query, h, plan->heads);
        load_q(c, &heads);
        qsa_attend_qk(base->kernels, base->layout->kv_element, heads.n, base->config->head_dim, scratch);
        for (uint32_t i = 0; i < heads.n; i++)
            memcpy(qk_at(c, plan, kv_query, h + i) + first_token, scratch->x + i * scratch->x_stride,
                   scratch->selected.n * sizeof(float));
    }
}

void qsa_host_qk(const qsa_host_context *c)
{
    const attend_plan plan = plan_tasks(c);
    if (!plan.split)
        return;
    const uint64_t tasks = (uint64_t)plan.kv_queries * plan.token_ranges;
    uint64_t task, end;
    while (qsa_host_steal(c, QSA_STEALING_QK, tasks, 1, &task, &end))
        qk_of_token_range(c, &plan, (uint32_t)(task / plan.token_ranges), (uint32_t)(task % plan.token_ranges));
}

/* ---- phase 4 ---- */

/* What a part has done. */
typedef struct attend_work {
    uint64_t k_rows, groups;
    uint64_t addressed; /* the kv query whose addresses are in scratch */
} attend_work;

/* Dimensions [*begin, *end) of a range: whole chunks, the last with what is left. */
static void range_of_dims(const qsa_config *config, const attend_plan *plan, uint32_t range, uint32_t *begin,
                          uint32_t *end)
{
    uint64_t first, last;
    qsa_share(config->head_dim / QSA_CHUNK_DIMS, range, plan->dim_ranges, &first, &last);
    *begin = (uint32_t)first * QSA_CHUNK_DIMS;
    *end = range + 1 == plan->dim_ranges ? config->head_dim : (uint32_t)last * QSA_CHUNK_DIMS;
    assert(*begin < *end && *begin % QSA_CHUNK_DIMS == 0);
}

/* Softmax and PV of some dimensions, from what phase 3 left. */
static void attend_split(const qsa_host_context *c, const attend_plan *plan, const head_range *heads, uint32_t range,
                         float *out)
{
    const qsa_store *base = &c->store->base;
    qsa_attend_scratch *scratch = &c->scratch->attend;
    uint32_t begin, end;
    assert(scratch->selected.n <= scratch->x_stride);
    range_of_dims(base->config, plan, range, &begin, &end);
    for (uint32_t i = 0; i < heads->n; i++)
        memcpy(scratch->x + i * scratch->x_stride, qk_at(c, plan, heads->kv_query, heads->first + i),
               scratch->selected.n * sizeof(float));
    qsa_attend_softmax_pv(base->kernels, base->layout->kv_element, heads->n, begin, end, scratch, out,
                          c->io->out.head_stride);
}

static void attend_whole(const qsa_host_context *c, const head_range *heads, float *out)
{
    const qsa_store *base = &c->store->base;
    load_q(c, heads);
    qsa_attend_heads(base->kernels, base->layout->kv_element, heads->n, base->config->head_dim, &c->scratch->attend,
                     out, c->io->out.head_stride);
}

/* A range of heads of one kv query; if it is split, one range of dimensions. */
static void attend_task(const qsa_host_context *c, const attend_plan *plan, uint64_t task, attend_work *work)
{
    const uint32_t head_task = (uint32_t)(task % plan->head_ranges);
    const uint32_t dim_task = (uint32_t)(task / plan->head_ranges % plan->dim_ranges);
    const uint32_t kv_query = (uint32_t)(task / plan->head_ranges / plan->dim_ranges);
    const qsa_output *out = &c->io->out;
    uint64_t first, last;
    qsa_share(plan->heads, head_task, plan->head_ranges, &first, &last);
    head_range heads = heads_of(c, plan, kv_query, (uint32_t)first, (uint32_t)last);
    const uint32_t groups = c->store->n_selected[heads.token];
    if (kv_query != work->addressed)
        qsa_host_addresses(c, heads.token, heads.kv_head, 0, groups + 1, &c->scratch->attend.selected);
    work->addressed = kv_query;
    for (uint32_t h = (uint32_t)first; h < last; h += heads.n) {
        heads = heads_of(c, plan, kv_query, h, (uint32_t)last);
        float *to = out->data + heads.token * out->token_stride + heads.q_head * out->head_stride;
        if (plan->split)
            attend_split(c, plan, &heads, dim_task, to);
        else
            attend_whole(c, &heads, to);
    }
    if (head_task == 0 && dim_task == 0) {
        work->k_rows += c->scratch->attend.selected.n;
        work->groups += heads.kv_head == 0 ? groups : 0;
    }
}

void qsa_host_attend(const qsa_host_context *c)
{
    const attend_plan plan = plan_tasks(c);
    const uint64_t tasks = (uint64_t)plan.kv_queries * plan.dim_ranges * plan.head_ranges;
    attend_work work = {.addressed = UINT64_MAX};
    uint64_t task, end;
    while (qsa_host_steal(c, QSA_STEALING_ATTEND, tasks, 1, &task, &end))
        attend_task(c, &plan, task, &work);
    atomic_fetch_add_explicit(&c->store->base.work->k_rows_read, work.k_rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->store->base.work->groups_chosen, work.groups, memory_order_relaxed);
}
