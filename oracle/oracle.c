/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle/oracle.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *resize(void *array, size_t count, size_t element_size)
{
    void *grown = realloc(array, (count ? count : 1) * element_size);
    if (!grown)
        abort();
    return grown;
}

/* ---- elementary functions (section 6) ---- */

float oracle_e2(float x)
{
    static const float coefficients[] = {0x1.5f48cp-10f, 0x1.3b2a1cp-7f, 0x1.c6aeccp-5f,
                                         0x1.ebfbep-3f,  0x1.62e43p-1f,  1.0f};
    if (!(x >= -126))
        return 0.0f;
    float magic = 12582912.0f;
    float t = x + magic, n = t - magic, r = x - n;
    float p = 0x1.444p-13f;
    for (int i = 0; i < 6; i++)
        p = fmaf(p, r, coefficients[i]);
    uint32_t p_bits, t_bits, magic_bits;
    memcpy(&p_bits, &p, 4);
    memcpy(&t_bits, &t, 4);
    memcpy(&magic_bits, &magic, 4);
    p_bits += (t_bits - magic_bits) << 23;
    memcpy(&p, &p_bits, 4);
    return p;
}

static double factorial(int n)
{
    return n <= 1 ? 1.0 : n * factorial(n - 1); /* exact up to 18! */
}

void oracle_sin_cos(float angle, float *out_sin, float *out_cos)
{
    double a = angle;
    double k = rint(a * 0x1.45f306dc9c883p-1);
    double r = ((a - k * 0x1.921fb54p+0) - k * 0x1.10b4611p-30) - k * 0x1.4c4c6628b80dcp-59;
    double z = r * r, s = 0, e = 0;
    for (int n = 7; n >= 1; n--)
        s = s * z + (n % 2 ? -1 : 1) / factorial(2 * n + 1);
    for (int n = 8; n >= 1; n--)
        e = e * z + (n % 2 ? -1 : 1) / factorial(2 * n);
    double sn = (s * z) * r + r, cs = e * z + 1;
    int quadrant = (int)(((int64_t)k % 4 + 4) % 4);
    const double sines[] = {sn, cs, -sn, -cs}, cosines[] = {cs, -sn, -cs, sn};
    *out_sin = (float)sines[quadrant];
    *out_cos = (float)cosines[quadrant];
}

float oracle_power(float theta, float e)
{
    assert(theta > 0 && 0 <= e && e < 1);
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

/* ---- rotary tables ---- */

static double correction(const oracle_shape *s, double beta)
{
    const double pi = 3.14159265358979323846;
    return s->rotary_dim * log(s->yarn_context / (2 * pi * beta)) / (2 * log((double)s->theta));
}

void oracle_frequencies(const oracle_shape *s, float *out)
{
    double low = 0, high = 0;
    if (s->yarn) {
        low = fmax(floor(correction(s, s->yarn_beta_fast)), 0);
        high = fmin(ceil(correction(s, s->yarn_beta_slow)), s->rotary_dim - 1);
        high = high == low ? low + 0.001 : high;
    }
    for (int i = 0; i < s->rotary_dim / 2; i++) {
        float power = oracle_power(s->theta, (float)(2 * i) / (float)s->rotary_dim);
        out[i] = 1.0f / power;
        if (s->yarn) {
            float interpolated = 1.0f / (s->yarn_factor * power);
            float ramp = (float)(i - low) / (float)(high - low);
            ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
            float e = 1 - ramp;
            float first = interpolated * (1 - e), second = out[i] * e;
            out[i] = first + second;
        }
    }
}

float oracle_attention_factor(const oracle_shape *s)
{
    if (!s->yarn)
        return 1.0f;
    if (s->yarn_has_attention_factor)
        return s->yarn_attention_factor;
    return s->yarn_factor <= 1 ? 1.0f : (float)(1 + 0.1 * log((double)s->yarn_factor));
}

void oracle_cos_sin(const oracle_shape *s, const int32_t triple[3], float *out)
{
    int pairs = s->rotary_dim / 2;
    float *frequencies = resize(NULL, pairs, sizeof *frequencies);
    float factor = oracle_attention_factor(s);
    oracle_frequencies(s, frequencies);
    for (int i = 0; i < pairs; i++) {
        int axis = i % 3 == 1 && i < 3 * s->sections[1] ? 1 : i % 3 == 2 && i < 3 * s->sections[2] ? 2 : 0;
        float sine, cosine;
        oracle_sin_cos((float)triple[axis] * frequencies[i], &sine, &cosine);
        out[2 * i] = cosine * factor;
        out[2 * i + 1] = sine * factor;
    }
    free(frequencies);
}

/* ---- number types ---- */

/* Rounds to the nearest number with that many significant bits and no grid finer than 2^least, ties to even. */
static float round_to(float x, int bits, int least)
{
    int exponent;
    frexp(x, &exponent);
    int grid = exponent - bits > least ? exponent - bits : least;
    return copysignf((float)ldexp(rint(ldexp(fabs((double)x), -grid)), grid), x);
}

/* Adds just below half of a bf16's last bit, or exactly half where that bit is odd; the carry rounds up where x is past
 * the midpoint. The same as round_to(x, 8, -133), but in bits, because this is by far the most frequent operation. */
float oracle_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float oracle_to_f16(float x)
{
    return round_to(x, 11, -24);
}

static bool store_q8_0(const float *x, float *out)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float d = largest / 127, stored_d = oracle_to_f16(d);
    if (d >= 65520)
        return false;
    for (int i = 0; i < 32; i++) {
        float id = stored_d == 0 ? 0 : 1 / d;
        int q = stored_d == 0 ? 0 : (int)rintf(x[i] * id);
        out[i] = stored_d * (float)q;
    }
    return true;
}

bool oracle_store(oracle_kv type, int size, const float *x, float *out)
{
    assert(type != ORACLE_Q8_0 || size % 32 == 0);
    bool ok = true;
    for (int i = 0; i < size; i++) {
        if (type == ORACLE_Q8_0 && i % 32 == 0) {
            ok = store_q8_0(x + i, out + i) && ok;
        } else if (type == ORACLE_F16) {
            ok = fabsf(x[i]) < 65520 && ok;
            out[i] = oracle_to_f16(x[i]);
        } else if (type == ORACLE_BF16) {
            out[i] = oracle_to_bf16(x[i]);
            ok = isfinite(out[i]) && ok;
        } else if (type == ORACLE_F32) {
            out[i] = x[i];
            ok = isfinite(x[i]) && ok;
        }
    }
    return ok;
}

/* ---- index keys (section 3) ---- */

static float fl(float x, bool bf16)
{
    return bf16 ? oracle_to_bf16(x) : x;
}

void oracle_norm(int size, float eps, const float *x, const float *weight, float *out)
{
    float s = 0;
    for (int i = 0; i < size; i++)
        s = fmaf(x[i], x[i], s);
    float t = s / (float)size;
    t = t + eps;
    float root = sqrtf(t), u = 1 / root;
    for (int i = 0; i < size; i++) {
        float product = x[i] * u;
        out[i] = product * weight[i];
    }
}

void oracle_rotate(int rotary_dim, const float *cos_sin, bool bf16, float *x)
{
    int h = rotary_dim / 2;
    for (int i = 0; i < h; i++) {
        float c = fl(cos_sin[2 * i], bf16), s = fl(cos_sin[2 * i + 1], bf16);
        float lo_c = fl(x[i] * c, bf16), hi_s = fl(x[i + h] * s, bf16);
        float hi_c = fl(x[i + h] * c, bf16), lo_s = fl(x[i] * s, bf16);
        x[i] = fl(lo_c - hi_s, bf16);
        x[i + h] = fl(hi_c + lo_s, bf16);
    }
}

/* Norm, then rotation, of one head. */
static void norm_rotate(int size, const oracle_shape *s, const float *weight, const float *cos_sin, bool bf16,
                        const float *x, float *out)
{
    oracle_norm(size, s->eps, x, weight, out);
    for (int i = 0; i < size; i++)
        out[i] = fl(out[i], bf16);
    oracle_rotate(s->rotary_dim, cos_sin, bf16, out);
}

void oracle_pool(const oracle_shape *s, const float *raw_keys, const float *cos_sin, float *out)
{
    float *mean = resize(NULL, s->index_dim, sizeof *mean);
    for (int d = 0; d < s->index_dim; d++) {
        float sum = fl(raw_keys[d], s->index_bf16);
        for (int k = 1; k < s->ratio; k++)
            sum = sum + fl(raw_keys[k * s->index_dim + d], s->index_bf16);
        mean[d] = fl(sum / (float)s->ratio, s->index_bf16);
    }
    norm_rotate(s->index_dim, s, s->index_k_norm, cos_sin, s->index_bf16, mean, out);
    free(mean);
}

void oracle_index_query(const oracle_shape *s, const float *x, const float *cos_sin, float *out)
{
    float *head = resize(NULL, s->index_dim, sizeof *head);
    for (int h = 0; h < s->index_heads; h++) {
        for (int d = 0; d < s->index_dim; d++)
            head[d] = fl(x[h * s->index_dim + d], s->index_bf16);
        norm_rotate(s->index_dim, s, s->index_q_norm, cos_sin, s->index_bf16, head, out + (size_t)h * s->index_dim);
    }
    free(head);
}

/* ---- scores and selection (section 4) ---- */

float oracle_score(const oracle_shape *s, const float *index_q, const float *pooled_key)
{
    float score = 0;
    for (int head = 0; head < s->index_heads; head++) {
        float dot = 0;
        for (int d = 0; d < s->index_dim; d++)
            dot = fmaf(index_q[head * s->index_dim + d], pooled_key[d], dot);
        score = score + (dot < 0 ? 0.0f : dot);
    }
    return score;
}

typedef struct ranked {
    float score;
    int32_t number;
} ranked;

/* The total order of selection: score descending, then number ascending. */
static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int by_number(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return *x < *y ? -1 : 1;
}

int oracle_select(int count, const float *scores, int keep, int32_t *out_chosen)
{
    ranked *all = resize(NULL, count, sizeof *all);
    const int chosen = keep < count ? keep : count;
    for (int j = 0; j < count; j++)
        all[j] = (ranked){scores[j], j};
    qsort(all, count, sizeof *all, by_rank);
    for (int i = 0; i < chosen; i++)
        out_chosen[i] = all[i].number;
    qsort(out_chosen, chosen, sizeof *out_chosen, by_number);
    free(all);
    return chosen;
}

/* ---- the run ---- */

void oracle_open(oracle_run *run, const oracle_shape *shape, int64_t anchor, int64_t frame, int window)
{
    assert(shape->q_heads % shape->kv_heads == 0 && shape->budget % shape->ratio == 0);
    assert(shape->rotary_dim % 2 == 0 && shape->rotary_dim <= shape->index_dim);
    *run = (oracle_run){.shape = shape, .anchor = anchor, .frame = frame, .window = window};
}

void oracle_truncate(oracle_run *run, int n)
{
    assert(0 <= n && n <= run->n);
    run->n = n;
}

void oracle_close(oracle_run *run)
{
    float *const arrays[] = {run->cos_sin, run->raw_key,  run->pooled,  run->index_q,
                             run->main_q,  run->k_stored, run->v_stored};
    for (int i = 0; i < 7; i++)
        free(arrays[i]);
    *run = (oracle_run){0};
}

static bool acceptable(int size, const float *x)
{
    for (int i = 0; i < size; i++)
        if (!(fabsf(x[i]) <= 0x1p56f)) /* also false for NaN */
            return false;
    return true;
}

static void grow(oracle_run *run, int n)
{
    const oracle_shape *s = run->shape;
    int kv = s->kv_heads * s->head_dim;
    run->cos_sin = resize(run->cos_sin, (size_t)n * s->rotary_dim, sizeof(float));
    run->raw_key = resize(run->raw_key, (size_t)n * s->index_dim, sizeof(float));
    run->pooled = resize(run->pooled, (size_t)(n / s->ratio) * s->index_dim, sizeof(float));
    run->index_q = resize(run->index_q, (size_t)n * s->index_heads * s->index_dim, sizeof(float));
    run->main_q = resize(run->main_q, (size_t)n * s->q_heads * s->head_dim, sizeof(float));
    run->k_stored = resize(run->k_stored, (size_t)n * kv, sizeof(float));
    run->v_stored = resize(run->v_stored, (size_t)n * kv, sizeof(float));
}

/* The rotary position of token i of an append, relative to the frame. */
static bool append_position(oracle_run *run, int i, const oracle_tokens *tokens)
{
    const oracle_shape *s = run->shape;
    int32_t relative[3];
    for (int axis = 0; axis < 3; axis++) {
        int64_t coordinate = tokens->triples ? tokens->triples[3 * i + axis] : run->anchor + run->n + i;
        if (llabs(coordinate - run->frame) > 1 << 24)
            return false;
        relative[axis] = (int32_t)(coordinate - run->frame);
    }
    oracle_cos_sin(s, relative, run->cos_sin + (size_t)(run->n + i) * s->rotary_dim);
    return true;
}

/* Index query and raw key of one token. NULL, or the tensor that is refused. */
static const char *append_index(oracle_run *run, int i, const oracle_tokens *tokens)
{
    const oracle_shape *s = run->shape;
    size_t t = (size_t)run->n + i;
    int q_size = s->index_heads * s->index_dim;
    const float *index_q = tokens->index_q + (size_t)i * q_size, *raw_key = tokens->raw_key + (size_t)i * s->index_dim;
    if (!acceptable(q_size, index_q) || !acceptable(s->index_dim, raw_key))
        return acceptable(q_size, index_q) ? "raw_key" : "index_q";
    oracle_index_query(s, index_q, run->cos_sin + t * s->rotary_dim, run->index_q + t * q_size);
    for (int d = 0; d < s->index_dim; d++)
        run->raw_key[t * s->index_dim + d] = fl(raw_key[d], s->index_bf16);
    return NULL;
}

/* Norm and rotation of heads of main q or k, or a plain copy where they are final. */
static void main_heads(const oracle_run *run, size_t t, int heads, const float *weight, const float *x, float *out)
{
    const oracle_shape *s = run->shape;
    if (s->final_qk) {
        memcpy(out, x, (size_t)heads * s->head_dim * sizeof *out);
        return;
    }
    for (int h = 0; h < heads; h++) {
        norm_rotate(s->head_dim, s, weight, run->cos_sin + t * s->rotary_dim, false, x + (size_t)h * s->head_dim,
                    out + (size_t)h * s->head_dim);
    }
}

/* q, k and v of one token. NULL, or the tensor that is refused. */
static const char *append_main(oracle_run *run, int i, const oracle_tokens *tokens)
{
    const oracle_shape *s = run->shape;
    size_t t = (size_t)run->n + i;
    int q_size = s->q_heads * s->head_dim, kv_size = s->kv_heads * s->head_dim;
    const float *q = tokens->q + (size_t)i * q_size;
    const float *k = tokens->k + (size_t)i * kv_size, *v = tokens->v + (size_t)i * kv_size;
    float *k_out = run->k_stored + t * kv_size, *v_out = run->v_stored + t * kv_size;
    if (!acceptable(q_size, q))
        return "q";
    main_heads(run, t, s->q_heads, s->q_norm, q, run->main_q + t * q_size);
    if (!acceptable(kv_size, k))
        return "k";
    main_heads(run, t, s->kv_heads, s->k_norm, k, k_out);
    if (!oracle_store(s->kv_type, kv_size, k_out, k_out))
        return "k";
    return acceptable(kv_size, v) && oracle_store(s->kv_type, kv_size, v, v_out) ? NULL : "v";
}

bool oracle_append(oracle_run *run, int n, const oracle_tokens *tokens, oracle_refusal *out_refusal)
{
    const oracle_shape *s = run->shape;
    grow(run, run->n + n);
    for (int i = 0; i < n; i++) {
        const char *refused = append_position(run, i, tokens) ? append_index(run, i, tokens) : "triples";
        if (!refused && tokens->q)
            refused = append_main(run, i, tokens);
        if (refused) {
            *out_refusal = (oracle_refusal){.token = i, .tensor = refused};
            return false;
        }
    }
    for (int j = run->n / s->ratio; j < (run->n + n) / s->ratio; j++) {
        size_t first = (size_t)j * s->ratio;
        oracle_pool(s, run->raw_key + first * s->index_dim, run->cos_sin + first * s->rotary_dim,
                    run->pooled + (size_t)j * s->index_dim);
    }
    run->n += n;
    return true;
}

/* ---- selected groups and tokens (sections 2 and 4) ---- */

int oracle_first_group(const oracle_run *run, int t)
{
    int r = run->shape->ratio;
    int excess = run->window && t + 1 > run->window ? t + 1 - run->window : 0;
    return (excess + r - 1) / r;
}

int oracle_end_group(const oracle_run *run, int t)
{
    return (t + 1) / run->shape->ratio;
}

void oracle_scores(const oracle_run *run, int t, float *out_scores)
{
    const oracle_shape *s = run->shape;
    int first = oracle_first_group(run, t);
    for (int j = first; j < oracle_end_group(run, t); j++) {
        out_scores[j - first] = oracle_score(s, run->index_q + (size_t)t * s->index_heads * s->index_dim,
                                             run->pooled + (size_t)j * s->index_dim);
    }
}

int oracle_row_max(const oracle_shape *shape)
{
    return shape->budget + shape->ratio - 1;
}

int oracle_groups(const oracle_run *run, int t, int32_t *out_groups)
{
    assert(0 <= t && t < run->n);
    const oracle_shape *s = run->shape;
    int first = oracle_first_group(run, t), candidates = oracle_end_group(run, t) - first;
    float *scores = resize(NULL, candidates, sizeof *scores);
    oracle_scores(run, t, scores);
    int count = oracle_select(candidates, scores, s->budget / s->ratio, out_groups);
    for (int i = 0; i < count; i++)
        out_groups[i] += first;
    free(scores);
    return count;
}

int oracle_row_of(const oracle_shape *s, int t, const int32_t *groups, int count, int32_t *out_row)
{
    int size = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < s->ratio; k++)
            out_row[size++] = groups[i] * s->ratio + k;
    for (int tail = (t + 1) / s->ratio * s->ratio; tail <= t; tail++)
        out_row[size++] = tail;
    return size;
}

int oracle_row(const oracle_run *run, int t, int32_t *out_row)
{
    const oracle_shape *s = run->shape;
    int32_t *groups = resize(NULL, s->budget / s->ratio, sizeof *groups);
    int size = oracle_row_of(s, t, groups, oracle_groups(run, t, groups), out_row);
    free(groups);
    return size;
}

/* ---- attention over the selected tokens (sections 5 and 6) ---- */

/* One head: q and out [dim]; k and v of its kv head for token 0, `stride` floats apart. p has room for all
 * selected tokens. */
static void attend_head(int dim, size_t stride, const float *q, const float *k, const float *v, const int32_t *row,
                        int row_size, float *p, float *out)
{
    float c = (float)((1.0 / sqrt((double)dim)) * 0x1.71547652b82fep0);
    float largest = -INFINITY, sum = 0;
    for (int j = 0; j < row_size; j++) {
        p[j] = 0;
        for (int d = 0; d < dim; d++) {
            float scaled = q[d] * c;
            p[j] = fmaf(scaled, k[row[j] * stride + d], p[j]);
        }
        largest = fmaxf(largest, p[j]);
    }
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int j = 0; j < row_size; j++) {
        p[j] = oracle_e2(p[j] - largest);
        sum = sum + p[j];
        for (int d = 0; d < dim; d++)
            out[d] = fmaf(p[j], v[row[j] * stride + d], out[d]);
    }
    float reciprocal = 1 / sum;
    for (int d = 0; d < dim; d++) {
        float product = out[d] * reciprocal;
        out[d] = product + 0.0f;
    }
}

void oracle_attend(const oracle_run *run, int t, const int32_t *row, int row_size, float *out)
{
    const oracle_shape *s = run->shape;
    assert(row_size > 0 && 0 <= row[0] && row[row_size - 1] < run->n);
    size_t stride = (size_t)s->kv_heads * s->head_dim;
    float *p = resize(NULL, row_size, sizeof *p);
    for (int h = 0; h < s->q_heads; h++) {
        size_t kv = (size_t)(h / (s->q_heads / s->kv_heads)) * s->head_dim;
        size_t q = ((size_t)t * s->q_heads + h) * s->head_dim;
        attend_head(s->head_dim, stride, run->main_q + q, run->k_stored + kv, run->v_stored + kv, row, row_size, p,
                    out + (size_t)h * s->head_dim);
    }
    free(p);
}

void oracle_output(const oracle_run *run, int t, float *out)
{
    int32_t *row = resize(NULL, oracle_row_max(run->shape), sizeof *row);
    int size = oracle_row(run, t, row);
    oracle_attend(run, t, row, size, out);
    free(row);
}
