/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of every operation. Sums that name no other order are sixteen lanes; see `dot`. */
#include "ops/tables.h"

#include "ops/elementary.h"

/* Element i of n goes to lane i mod 16, each lane a chain of fma from +0; zeros fill up the last sixteen. */
static float dot(const float *a, const float *b, size_t n)
{
    float lanes[OPS_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lanes[i % OPS_LANES] = fmaf(a[i], b[i], lanes[i % OPS_LANES]);
    for (size_t i = n; i % OPS_LANES != 0; i++)
        lanes[i % OPS_LANES] = fmaf(0.0f, 0.0f, lanes[i % OPS_LANES]);
    return ops_sum_lanes(lanes);
}

static float norm_scale(const float *x, size_t dim, float eps)
{
    return 1.0f / sqrtf(dot(x, x, dim) / (float)dim + eps);
}

/* The columns of a piece. */
static ops_range columns_of(size_t piece, size_t dim)
{
    const size_t begin = piece % ops_pieces(dim) * OPS_PIECE;
    return (ops_range){begin, begin + OPS_PIECE < dim ? begin + OPS_PIECE : dim};
}

/* ---- hyper-connections ---- */

static void norm(const ops_norm *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *x = op->x + row * op->dim, *weight = op->weight + row % op->weight_rows * op->dim;
        const float scale = norm_scale(x, op->dim, op->eps);
        for (size_t i = 0; i < op->dim; i++)
            op->out[row * op->dim + i] = (x[i] * scale) * weight[i];
    }
}

static void squash(const ops_squash *op, ops_range elements)
{
    for (size_t i = elements.begin; i < elements.end; i++)
        op->x[i] = ops_silu(op->x[i] * (1.0f / (float)op->streams));
}

static void mix(const ops_mix *op, ops_range pieces)
{
    for (size_t piece = pieces.begin; piece < pieces.end; piece++) {
        const size_t token = piece / ops_pieces(op->dim), first = token * op->streams * op->dim;
        const ops_range columns = columns_of(piece, op->dim);
        for (size_t i = columns.begin; i < columns.end; i++) {
            float sum = 0.0f;
            for (size_t s = 0; s < op->streams; s++)
                sum = fmaf(ops_sigmoid(op->u[first + s * op->dim + i]), op->n[first + s * op->dim + i], sum);
            op->out[token * op->dim + i] = sum * (1.0f / (float)op->streams);
        }
    }
}

static void residual(const ops_residual *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const size_t token = row / op->streams, stream = row % op->streams;
        const float gain = 2.0f * ops_sigmoid(op->gain[token * op->gain_stride + stream] * (1.0f / (float)op->streams));
        for (size_t i = 0; i < op->dim; i++)
            op->residual[row * op->dim + i] = fmaf(gain, op->y[token * op->dim + i], op->residual[row * op->dim + i]);
    }
}

/* ---- convolution ---- */

static void conv(const ops_conv *op, ops_range channels)
{
    for (size_t t = 0; t < op->tokens; t++) {
        for (size_t i = channels.begin; i < channels.end; i++) {
            float sum = 0.0f;
            for (size_t k = 0; k < op->taps; k++)
                sum = fmaf(op->weight[k * op->channels + i], ops_conv_row(op, t + k * op->dilation)[i], sum);
            op->out[t * op->channels + i] = ops_silu(sum);
        }
    }
}

/* ---- gated delta net ---- */

static void unit(const ops_unit *op, ops_range heads)
{
    for (size_t head = heads.begin; head < heads.end; head++) {
        const size_t at = head / op->key_heads * op->stride + head % op->key_heads * op->dim;
        float *q = op->q + at, *k = op->k + at;
        const float q_unit = 1.0f / sqrtf(dot(q, q, op->dim) + OPS_UNIT_EPS);
        const float k_unit = 1.0f / sqrtf(dot(k, k, op->dim) + OPS_UNIT_EPS);
        const float q_scale = q_unit * (1.0f / sqrtf((float)op->dim));
        for (size_t i = 0; i < op->dim; i++) {
            q[i] = q[i] * q_scale;
            k[i] = k[i] * k_unit;
        }
        op->kq[head] = dot(k, q, op->dim);
    }
}

static void gates(const ops_gates *op, ops_range tokens)
{
    for (size_t t = tokens.begin; t < tokens.end; t++) {
        float *decay = op->decay + t * op->heads, *beta = op->beta + t * op->heads;
        for (size_t h = 0; h < op->heads; h++) {
            decay[h] = ops_exp(op->a[h] * ops_softplus(decay[h] + op->dt[h]));
            beta[h] = ops_sigmoid(beta[h]);
        }
    }
}

/* One column of a head's state, s[i * OPS_STATE_COLUMNS] for i < dim, and one token. Both answers are taken before the
 * update: (decay S + k d^T)^T q = decay S^T q + d (k . q). */
static float delta_step(const ops_delta *op, size_t token, size_t head, float v, const float *before, float *after)
{
    const size_t key_head = head % op->key_heads, key = token * op->stride + key_head * op->dim;
    const float *q = op->q + key, *k = op->k + key, kq = op->kq[token * op->key_heads + key_head];
    const float decay = op->decay[token * op->value_heads + head], beta = op->beta[token * op->value_heads + head];
    float s_k = 0.0f, s_q = 0.0f;
    for (size_t i = 0; i < op->dim; i++) {
        s_k = fmaf(before[i * OPS_STATE_COLUMNS], k[i], s_k);
        s_q = fmaf(before[i * OPS_STATE_COLUMNS], q[i], s_q);
    }
    const float d = beta * (v - decay * s_k);
    for (size_t i = 0; i < op->dim; i++)
        after[i * OPS_STATE_COLUMNS] = fmaf(k[i], d, decay * before[i * OPS_STATE_COLUMNS]);
    return fmaf(d, kq, decay * s_q);
}

static void delta(const ops_delta *op, ops_range blocks)
{
    for (size_t block = blocks.begin; block < blocks.end; block++) {
        const size_t head = block / ops_state_blocks(op->dim),
                     first = block % ops_state_blocks(op->dim) * OPS_STATE_COLUMNS;
        const float *before = op->before + block * op->dim * OPS_STATE_COLUMNS;
        float *after = op->after + block * op->dim * OPS_STATE_COLUMNS;
        for (size_t c = 0; c < OPS_STATE_COLUMNS; c++) {
            const size_t column = head * op->dim + first + c;
            const bool is_there = first + c < op->dim;
            for (size_t t = 0; t < op->tokens; t++) {
                const float v = is_there ? op->v[t * op->stride + column] : 0.0f;
                const float o = delta_step(op, t, head, v, t == 0 ? before + c : after + c, after + c);
                if (is_there)
                    op->out[t * op->value_heads * op->dim + column] = o;
            }
        }
    }
}

static void gated_norm(const ops_gated_norm *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *z = op->z + row * op->dim;
        float *o = op->o + row * op->dim;
        const float scale = norm_scale(o, op->dim, op->eps);
        for (size_t i = 0; i < op->dim; i++)
            o[i] = ((o[i] * scale) * op->weight[i]) / ops_one_plus_exp(z[i]);
    }
}

/* ---- experts ---- */

static void route(const ops_route *op, ops_range tokens)
{
    for (size_t t = tokens.begin; t < tokens.end; t++) {
        const float *logits = op->logits + t * op->experts;
        int32_t *chosen = op->chosen + t * op->used;
        size_t kept = 0;
        for (size_t e = 0; e < op->experts; e++)
            kept = ops_offer_expert(logits, (int32_t)e, chosen, kept, op->used);
        ops_weigh_experts(logits, chosen, op->used, op->weight + t * op->used);
    }
}

static void swiglu(const ops_swiglu *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++)
        for (size_t i = 0; i < op->dim; i++)
            op->out[row * op->dim + i] =
                ops_silu(op->gate[row * op->gate_stride + i]) * op->up[row * op->up_stride + i];
}

static void combine(const ops_combine *op, ops_range pieces)
{
    for (size_t piece = pieces.begin; piece < pieces.end; piece++) {
        const size_t token = piece / ops_pieces(op->dim), pair = token * op->used;
        const ops_range columns = columns_of(piece, op->dim);
        for (size_t i = columns.begin; i < columns.end; i++) {
            float sum = 0.0f;
            for (size_t rank = 0; rank < op->used; rank++)
                sum = fmaf(op->weight[pair + rank], op->expert[(size_t)op->place[pair + rank] * op->dim + i], sum);
            const size_t at = token * op->dim + i;
            op->out[at] = fmaf(ops_sigmoid(op->gate[token]), op->shared[at], sum);
        }
    }
}

/* ---- n-gram embedding ---- */

static void ngram_gate(const ops_ngram_gate *op, ops_range rows)
{
    for (size_t row = rows.begin; row < rows.end; row++) {
        const size_t token = row / op->streams;
        const float product = dot(op->key + row * op->dim, op->query + row * op->dim, op->dim);
        const float gate = ops_ngram_sigmoid(product, op->dim);
        for (size_t i = 0; i < op->dim; i++)
            op->out[row * op->dim + i] = gate * op->value[token * op->dim + i];
    }
}

static void ngram_add(const ops_ngram_add *op, ops_range elements)
{
    for (size_t i = elements.begin; i < elements.end; i++)
        op->residual[i] = op->residual[i] + (op->a[i] + op->b[i]);
}

/* ---- QSA ---- */

static void gate(const ops_gate *op, ops_range heads)
{
    for (size_t head = heads.begin; head < heads.end; head++) {
        const float *g = op->gate + head / op->heads * op->token_stride + head % op->heads * op->head_stride;
        for (size_t i = 0; i < op->dim; i++)
            op->x[head * op->dim + i] = op->x[head * op->dim + i] / ops_one_plus_exp(g[i]);
    }
}

OPS_DEFINE_TABLE(scalar);
