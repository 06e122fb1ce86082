/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/naive.h"

#include "console/memory.h"
#include "verify/golden_numbers.h"

#include <math.h>
#include <stdlib.h>

/* ---- elementary functions (SPEC section 6) ---- */

static float exp2_below_zero(float x)
{
    static const float c[] = {0x1.5f48cp-10f, 0x1.3b2a1cp-7f, 0x1.c6aeccp-5f, 0x1.ebfbep-3f, 0x1.62e43p-1f, 1.0f};
    if (!(x >= -126))
        return 0.0f;
    float t = x + 12582912.0f, n = t - 12582912.0f, p = 0x1.444p-13f;
    for (int i = 0; i < 6; i++)
        p = fmaf(p, x - n, c[i]);
    return ldexpf(p, (int)n); /* exact: p is in [0.5, 2), the result at least 2^-126 */
}

static double factorial(int n)
{
    return n <= 1 ? 1.0 : n * factorial(n - 1);
}

static void sin_cos(float angle, float *out_sin, float *out_cos)
{
    double a = angle, k = rint(a * 0x1.45f306dc9c883p-1);
    double r = ((a - k * 0x1.921fb54p+0) - k * 0x1.10b4611p-30) - k * 0x1.4c4c6628b80dcp-59;
    double z = r * r, s = 0, e = 0;
    for (int n = 7; n >= 1; n--)
        s = s * z + (n % 2 ? -1 : 1) / factorial(2 * n + 1);
    for (int n = 8; n >= 1; n--)
        e = e * z + (n % 2 ? -1 : 1) / factorial(2 * n);
    double sine = (s * z) * r + r, cosine = e * z + 1;
    const double quarter[5] = {sine, cosine, -sine, -cosine, sine};
    int turn = (int)(((int64_t)k % 4 + 4) % 4);
    *out_sin = (float)quarter[turn];
    *out_cos = (float)quarter[turn + 1];
}

static float power(float theta, float e)
{
    double x = theta, y = 1, rest = e;
    while (rest > 0) {
        x = sqrt(x);
        rest = 2 * rest;
        if (rest >= 1) {
            y = y * x;
            rest = rest - 1;
        }
    }
    return (float)y;
}

/* ---- index keys (section 3) ---- */

void naive_cos_sin(const golden_case *c, const int32_t triple[3], float *out)
{
    uint32_t pairs = c->rotary_dim / 2;
    for (uint32_t i = 0; i < pairs; i++) {
        int axis = i % 3 == 1 && i < 3 * c->sections[1] ? 1 : i % 3 == 2 && i < 3 * c->sections[2] ? 2 : 0;
        float frequency = 1.0f / power(c->theta, (float)(2 * i) / (float)c->rotary_dim);
        sin_cos((float)triple[axis] * frequency, &out[pairs + i], &out[i]);
    }
}

static float rounded(float x, bool to_bf16)
{
    return to_bf16 ? golden_to_bf16(x) : x;
}

static void norm(uint32_t dim, float eps, const float *x, const float *weight, float *out)
{
    float s = 0;
    for (uint32_t i = 0; i < dim; i++)
        s = fmaf(x[i], x[i], s);
    float t = s / (float)dim;
    t = t + eps;
    float root = sqrtf(t), u = 1.0f / root;
    for (uint32_t i = 0; i < dim; i++)
        out[i] = (x[i] * u) * weight[i];
}

static void rotate(uint32_t pairs, const float *cos_sin, bool bf16, float *x)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float c = rounded(cos_sin[i], bf16), s = rounded(cos_sin[pairs + i], bf16), a = x[i], b = x[i + pairs];
        x[i] = rounded(rounded(a * c, bf16) - rounded(b * s, bf16), bf16);
        x[i + pairs] = rounded(rounded(b * c, bf16) + rounded(a * s, bf16), bf16);
    }
}

static void norm_rotate(uint32_t dim, float eps, uint32_t pairs, const float *x, const float *weight,
                        const float *cos_sin, bool bf16, float *out)
{
    norm(dim, eps, x, weight, out);
    for (uint32_t i = 0; i < dim; i++)
        out[i] = rounded(out[i], bf16);
    rotate(pairs, cos_sin, bf16, out);
}

void naive_pool(const golden_case *c, const float *raw_keys, const float *cos_sin, float *out)
{
    float *mean = memory_new(c->index_dim, sizeof *mean);
    for (uint32_t i = 0; i < c->index_dim; i++) {
        float sum = rounded(raw_keys[i], c->index_bf16);
        for (uint32_t t = 1; t < c->ratio; t++)
            sum = sum + rounded(raw_keys[(size_t)t * c->index_dim + i], c->index_bf16);
        mean[i] = rounded(sum / (float)c->ratio, c->index_bf16);
    }
    norm_rotate(c->index_dim, c->eps, c->rotary_dim / 2, mean, c->index_k_norm, cos_sin, c->index_bf16, out);
    free(mean);
}

void naive_index_query(const golden_case *c, const float *x, const float *cos_sin, float *out)
{
    float *input = memory_new(c->index_dim, sizeof *input);
    for (uint32_t h = 0; h < c->index_heads; h++) {
        for (uint32_t i = 0; i < c->index_dim; i++)
            input[i] = rounded(x[h * c->index_dim + i], c->index_bf16);
        norm_rotate(c->index_dim, c->eps, c->rotary_dim / 2, input, c->index_q_norm, cos_sin, c->index_bf16,
                    out + (size_t)h * c->index_dim);
    }
    free(input);
}

/* ---- scores and membership (section 4) ---- */

float naive_score(const golden_case *c, const float *index_q, const float *pooled_key)
{
    float score = 0;
    for (uint32_t h = 0; h < c->index_heads; h++) {
        float dot = 0;
        for (uint32_t i = 0; i < c->index_dim; i++)
            dot = fmaf(index_q[h * c->index_dim + i], pooled_key[i], dot);
        score = score + (dot < 0 ? 0.0f : dot);
    }
    return score;
}

typedef struct ranked {
    float score;
    uint32_t group;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

uint32_t naive_best(const float *scores, uint32_t n, uint32_t k, uint32_t *out)
{
    ranked *all = memory_new(n, sizeof *all);
    for (uint32_t i = 0; i < n; i++)
        all[i] = (ranked){scores[i], i};
    qsort(all, n, sizeof *all, by_rank);
    k = k < n ? k : n;
    for (uint32_t i = 0; i < k; i++)
        out[i] = all[i].group;
    qsort(out, k, sizeof *out, by_number);
    free(all);
    return k;
}

uint32_t naive_select(const naive_run *run, uint32_t t, uint32_t *out_groups)
{
    const golden_case *c = run->c;
    uint32_t groups = (t + 1) / c->ratio;
    float *scores = memory_new(groups, sizeof *scores);
    for (uint32_t j = 0; j < groups; j++)
        scores[j] = naive_score(c, run->index_q + (size_t)t * c->index_heads * c->index_dim,
                                run->pooled + (size_t)j * c->index_dim);
    uint32_t n = naive_best(scores, groups, c->budget / c->ratio, out_groups);
    free(scores);
    return n;
}

uint32_t naive_row(const golden_case *c, uint32_t t, const uint32_t *groups, uint32_t n_groups, uint32_t *out_row)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_groups; i++)
        for (uint32_t k = 0; k < c->ratio; k++)
            out_row[n++] = groups[i] * c->ratio + k;
    for (uint32_t tail = (t + 1) / c->ratio * c->ratio; tail <= t; tail++)
        out_row[n++] = tail;
    return n;
}

/* ---- attention (sections 5 and 6) ---- */

static void attend_head(const golden_case *c, const float *q, const float *k, const float *v, const uint32_t *row,
                        uint32_t n, float *out)
{
    const size_t stride = (size_t)c->kv_heads * c->head_dim;
    float *x = memory_new(n, sizeof *x);
    float scale = (float)((1.0 / sqrt((double)c->head_dim)) * 0x1.71547652b82fep0), largest = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < n; j++) {
        x[j] = 0;
        for (uint32_t d = 0; d < c->head_dim; d++)
            x[j] = fmaf(q[d] * scale, k[row[j] * stride + d], x[j]);
        largest = x[j] > largest ? x[j] : largest;
    }
    for (uint32_t j = 0; j < n; j++) {
        x[j] = exp2_below_zero(x[j] - largest);
        sum = sum + x[j];
    }
    float reciprocal = 1.0f / sum;
    for (uint32_t d = 0; d < c->head_dim; d++) {
        float a = 0;
        for (uint32_t j = 0; j < n; j++)
            a = fmaf(x[j], v[row[j] * stride + d], a);
        float product = a * reciprocal;
        out[d] = product == 0 ? 0.0f : product; /* product + 0: no negative zero */
    }
    free(x);
}

void naive_attend(const naive_run *run, uint32_t t, const uint32_t *row, uint32_t row_size, float *out)
{
    const golden_case *c = run->c;
    for (uint32_t h = 0; h < c->q_heads; h++) {
        size_t kv = (size_t)(h / (c->q_heads / c->kv_heads)) * c->head_dim;
        attend_head(c, run->q + ((size_t)t * c->q_heads + h) * c->head_dim, run->k + kv, run->v + kv, row, row_size,
                    out + (size_t)h * c->head_dim);
    }
}

/* ---- a run ---- */

static void fill_token(naive_run *run, uint32_t t)
{
    const golden_case *c = run->c;
    const uint32_t pairs = c->rotary_dim / 2;
    int32_t triple[3];
    for (int i = 0; i < 3; i++)
        triple[i] = (int32_t)((c->triples ? c->triples[3 * (size_t)t + i] : c->anchor + t) - c->frame);
    float *table = run->cos_sin + (size_t)t * 2 * pairs;
    naive_cos_sin(c, triple, table);
    const size_t index_size = (size_t)c->index_heads * c->index_dim;
    naive_index_query(c, c->index_q + t * index_size, table, run->index_q + t * index_size);
    for (uint32_t h = 0; run->q && h < c->q_heads; h++) {
        size_t at = ((size_t)t * c->q_heads + h) * c->head_dim;
        norm_rotate(c->head_dim, c->eps, pairs, c->q + at, c->q_norm, table, false, run->q + at);
    }
    for (uint32_t h = 0; run->q && h < c->kv_heads; h++) {
        size_t at = ((size_t)t * c->kv_heads + h) * c->head_dim;
        norm_rotate(c->head_dim, c->eps, pairs, c->k + at, c->k_norm, table, false, run->k + at);
        for (uint32_t d = 0; d < c->head_dim; d++) {
            run->k[at + d] = rounded(run->k[at + d], c->kv_type == GOLDEN_KV_BF16);
            run->v[at + d] = rounded(c->v[at + d], c->kv_type == GOLDEN_KV_BF16);
        }
    }
}

void naive_open(naive_run *run, const golden_case *c)
{
    const uint32_t pairs = c->rotary_dim / 2;
    *run = (naive_run){.c = c};
    run->cos_sin = memory_new((size_t)c->n * 2 * pairs, sizeof(float));
    run->index_q = memory_new((size_t)c->n * c->index_heads * c->index_dim, sizeof(float));
    run->pooled = memory_new((size_t)(c->n / c->ratio) * c->index_dim, sizeof(float));
    if (c->has_attention && !c->final_qkv) {
        run->q = memory_new((size_t)c->n * c->q_heads * c->head_dim, sizeof(float));
        run->k = memory_new((size_t)c->n * c->kv_heads * c->head_dim, sizeof(float));
        run->v = memory_new((size_t)c->n * c->kv_heads * c->head_dim, sizeof(float));
    }
    for (uint32_t t = 0; t < c->n; t++)
        fill_token(run, t);
    for (uint32_t j = 0; j < c->n / c->ratio; j++)
        naive_pool(c, c->raw_key + (size_t)j * c->ratio * c->index_dim, run->cos_sin + (size_t)j * c->ratio * 2 * pairs,
                   run->pooled + (size_t)j * c->index_dim);
}

void naive_close(naive_run *run)
{
    float *const arrays[] = {run->cos_sin, run->index_q, run->pooled, run->q, run->k, run->v};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]);
    *run = (naive_run){0};
}
