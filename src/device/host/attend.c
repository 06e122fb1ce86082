/* SPDX-License-Identifier: Apache-2.0 */
/* Phases 3 and 4: attention. A row is a query and one kv head.
 *
 * With at least as many rows as parts, phase 4 does everything: its unit is a row with a block of the query heads, in
 * order, so that a part goes through neighbouring queries and finds their K and V in cache. With fewer, each part reads
 * a piece of a row's K in phase 3, all heads at once, and leaves q.k in `compared`; in phase 4 it takes the weights of
 * some heads from there and sums some dimensions of V. No sum is cut. */
#include "device/host/host.h"

#include <string.h>

static uint32_t ceil_divide(uint64_t a, uint64_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

/* How the rows of a step are cut. */
typedef struct attend_plan {
    uint32_t rows, kv_heads, shared; /* query heads of a kv head */
    bool cut;                        /* a row is work for several parts */
    uint32_t pieces;                 /* of a row's K, if it is cut */
    uint32_t strips, blocks;         /* of V's dimensions and of the query heads */
} attend_plan;

static attend_plan plan_rows(const qsa_config *config, uint32_t n_tokens, uint32_t parts)
{
    const uint32_t chunks = config->head_dim / QSA_CHUNK_DIMS;
    attend_plan plan = {.rows = n_tokens * config->kv_heads,
                        .kv_heads = config->kv_heads,
                        .shared = config->q_heads / config->kv_heads,
                        .strips = 1};
    plan.blocks = ceil_divide(plan.shared, QSA_HEADS_AT_ONCE);
    plan.cut = plan.rows < parts;
    if (!plan.cut)
        return plan;
    /* Parts that are no multiple of the rows get more and smaller pieces, or one would have two. */
    plan.pieces = parts % plan.rows == 0 ? parts / plan.rows : ceil_divide(2 * (uint64_t)parts, plan.rows);
    /* A strip costs all weights of its heads once more, a block of heads a pass over V: both are cut. */
    plan.strips = plan.pieces / 2 < 1 || chunks < 1 ? 1 : plan.pieces / 2 < chunks ? plan.pieces / 2 : chunks;
    const uint32_t wanted = ceil_divide(plan.pieces, plan.strips), most = plan.shared;
    if (wanted > plan.blocks)
        plan.blocks = wanted < most ? wanted : most;
    return plan;
}

static void load_heads(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t token,
                       uint32_t first_head, uint32_t heads, float *q)
{
    const qsa_store *base = &store->base;
    const qsa_config *config = base->config;
    const qsa_strided *in = &io->tensors.q;
    const uint32_t pairs = base->rotary->pairs;
    const float *table = qsa_batch_cos_sin(batch, token, pairs), c = qsa_query_scale(config->head_dim);
    const qsa_norm_rotate_call call = {.x = in->data + token * in->token_stride + first_head * in->head_stride,
                                       .stride = in->head_stride,
                                       .heads = heads,
                                       .dim = config->head_dim,
                                       .weight = qsa_store_weights(base, io->layer).q,
                                       .eps = config->eps,
                                       .pairs = pairs,
                                       .cos = table,
                                       .sin = table + pairs,
                                       .out = q};
    base->kernels->norm_rotate(&call);
    for (uint32_t i = 0; i < heads * config->head_dim; i++)
        q[i] *= c;
}

/* ---- phase 3: q.k of rows that are cut ---- */

/* x of one query head over the whole row. */
static float *compared_at(const qsa_host_store *store, const attend_plan *plan, uint32_t row, uint32_t head)
{
    return store->compared + ((size_t)row * plan->shared + head) * store->parts[0].attend.x_stride;
}

static void compare_piece(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                          const attend_plan *plan, uint32_t row, uint32_t piece)
{
    const uint32_t token = row / plan->kv_heads, kv_head = row % plan->kv_heads, dim = store->base.config->head_dim;
    qsa_attend_scratch *scratch = &part->attend;
    uint64_t begin, end;
    qsa_share(store->n_selected[token] + 1, piece, plan->pieces, &begin, &end); /* the tail is one member more */
    qsa_host_row(store, batch, io->layer, token, kv_head, (uint32_t)begin, (uint32_t)end, &scratch->row);
    if (scratch->row.n == 0)
        return;
    const uint32_t first = (uint32_t)begin * store->base.layout->ratio;
    for (uint32_t h = 0; h < plan->shared; h += QSA_HEADS_AT_ONCE) {
        const uint32_t heads = plan->shared - h < QSA_HEADS_AT_ONCE ? plan->shared - h : QSA_HEADS_AT_ONCE;
        load_heads(store, batch, io, token, kv_head * plan->shared + h, heads, scratch->q);
        qsa_attend_compare(store->base.kernels, store->base.layout->kv_element, heads, dim, scratch);
        for (uint32_t i = 0; i < heads; i++)
            memcpy(compared_at(store, plan, row, h + i) + first, scratch->x + i * scratch->x_stride,
                   scratch->row.n * sizeof(float));
    }
}

void qsa_host_compare(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                      uint32_t parts)
{
    const attend_plan plan = plan_rows(store->base.config, batch->n_tokens, parts);
    if (!plan.cut)
        return;
    const uint64_t units = (uint64_t)plan.rows * plan.pieces;
    uint64_t unit, end;
    while (qsa_rests_take(store, QSA_HELPED_COMPARE, units, part, parts, 1, &unit, &end))
        compare_piece(store, batch, io, &store->parts[part], &plan, (uint32_t)(unit / plan.pieces),
                      (uint32_t)(unit % plan.pieces));
}

/* ---- phase 4 ---- */

/* What a part has done. */
typedef struct attend_work {
    uint64_t rows, chosen;
    uint64_t gathered; /* the row that its working memory holds */
} attend_work;

/* Dimensions [*begin, *end) of a strip: whole chunks, the last with what is left. */
static void strip_dims(const qsa_config *config, const attend_plan *plan, uint32_t strip, uint32_t *begin,
                       uint32_t *end)
{
    uint64_t first, last;
    qsa_share(config->head_dim / QSA_CHUNK_DIMS, strip, plan->strips, &first, &last);
    *begin = (uint32_t)first * QSA_CHUNK_DIMS;
    *end = strip + 1 == plan->strips ? config->head_dim : (uint32_t)last * QSA_CHUNK_DIMS;
}

/* `heads` query heads of a kv head from the h-th on, some dimensions of the result, from what phase 3 left. */
static void attend_strip(const qsa_host_store *store, const qsa_layer_io *io, qsa_part *part, const attend_plan *plan,
                         uint32_t row, uint32_t h, uint32_t heads, uint32_t strip)
{
    const qsa_store *base = &store->base;
    const qsa_output *out = &io->out;
    const uint32_t token = row / plan->kv_heads, head = row % plan->kv_heads * plan->shared + h;
    qsa_attend_scratch *scratch = &part->attend;
    uint32_t begin, end;
    strip_dims(base->config, plan, strip, &begin, &end);
    for (uint32_t i = 0; i < heads; i++)
        memcpy(scratch->x + i * scratch->x_stride, compared_at(store, plan, row, h + i),
               scratch->row.n * sizeof(float));
    qsa_attend_weigh(base->kernels, base->layout->kv_element, heads, begin, end, scratch,
                     out->data + token * out->token_stride + head * out->head_stride, out->head_stride);
}

/* One block of heads of one row; if the row is cut, one strip of it. */
static void attend_unit(const qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, qsa_part *part,
                        const attend_plan *plan, uint64_t unit, attend_work *work)
{
    const uint32_t block = (uint32_t)(unit % plan->blocks), strip = (uint32_t)(unit / plan->blocks % plan->strips);
    const uint32_t row = (uint32_t)(unit / plan->blocks / plan->strips);
    const uint32_t token = row / plan->kv_heads, kv_head = row % plan->kv_heads, members = store->n_selected[token] + 1;
    if (row != work->gathered)
        qsa_host_row(store, batch, io->layer, token, kv_head, 0, members, &part->attend.row);
    work->gathered = row;
    uint64_t first, last;
    qsa_share(plan->shared, block, plan->blocks, &first, &last);
    for (uint32_t h = (uint32_t)first, heads; h < last; h += heads) {
        heads = (uint32_t)last - h < QSA_HEADS_AT_ONCE ? (uint32_t)last - h : QSA_HEADS_AT_ONCE;
        if (plan->cut) {
            attend_strip(store, io, part, plan, row, h, heads, strip);
            continue;
        }
        const qsa_output *out = &io->out;
        const uint32_t head = kv_head * plan->shared + h;
        load_heads(store, batch, io, token, head, heads, part->attend.q);
        qsa_attend_heads(store->base.kernels, store->base.layout->kv_element, heads, store->base.config->head_dim,
                         &part->attend, out->data + token * out->token_stride + head * out->head_stride,
                         out->head_stride);
    }
    if (block == 0 && strip == 0) {
        work->rows += part->attend.row.n;
        work->chosen += kv_head == 0 ? store->n_selected[token] : 0;
    }
}

void qsa_host_attend(qsa_host_store *store, const qsa_batch *batch, const qsa_layer_io *io, uint32_t part,
                     uint32_t parts)
{
    const attend_plan plan = plan_rows(store->base.config, batch->n_tokens, parts);
    const uint64_t units = (uint64_t)plan.rows * plan.strips * plan.blocks;
    attend_work work = {.gathered = UINT64_MAX};
    uint64_t unit, end;
    while (qsa_rests_take(store, QSA_HELPED_ATTEND, units, part, parts, 1, &unit, &end))
        attend_unit(store, batch, io, &store->parts[part], &plan, unit, &work);
    atomic_fetch_add_explicit(&store->base.work->k_rows_read, work.rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->base.work->groups_chosen, work.chosen, memory_order_relaxed);
}
