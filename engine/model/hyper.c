/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hyper.h"

#include "model/elementwise.h"

/* Elements that one call of an inner loop takes; keeps all its operands in the first-level cache. */
enum { BLOCK = 512 };

typedef struct norm_params {
    const float *weights;
    float eps;
} norm_params;

/* A row is one stream of one token. */
static void run_norm(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const norm_params *p = user;
    const struct ggml_tensor *x = out->src[0];
    const size_t dim = (size_t)x->ne[0], streams = (size_t)x->ne[1];
    const share rows = share_of(streams * (size_t)x->ne[2], ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        const float *from = (const float *)x->data + row * dim;
        const float *w = p->weights + row % streams * dim;
        float *to = (float *)out->data + row * dim;
        const float factor = rms_factor(from, dim, p->eps);
        for (size_t i = 0; i < dim; i++) {
            to[i] = from[i] * factor * w[i];
        }
    }
}

struct ggml_tensor *norm_streams(graph_builder *b, const float *weights, struct ggml_tensor *x)
{
    const norm_params params = {weights, b->shape->eps};
    return custom_node(b, x->ne[0] * x->ne[1], x->ne[2], 1, &x, 1, run_norm, keep_params(b, &params, sizeof params));
}

/* x = mean over streams of sigmoid(u) * n, for the elements [begin, end) of one token. */
static void mix_block(const float *u, const float *n, size_t dim, size_t streams, size_t begin, size_t end, float *x)
{
    for (size_t i = begin; i < end; i++) {
        x[i] = sigmoid_f32(u[i]) * n[i];
    }
    for (size_t s = 1; s < streams; s++) {
        for (size_t i = begin; i < end; i++) {
            x[i] += sigmoid_f32(u[s * dim + i]) * n[s * dim + i];
        }
    }
    const float scale = 1.0f / (float)streams;
    for (size_t i = begin; i < end; i++) {
        x[i] *= scale;
    }
}

static void run_mix(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *u = out->src[0], *n = out->src[1];
    const size_t dim = (size_t)out->ne[0], wide = (size_t)n->ne[0], blocks = (dim + BLOCK - 1) / BLOCK;
    const share work = share_of(blocks * (size_t)out->ne[1], ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const size_t token = i / blocks, begin = i % blocks * BLOCK;
        const size_t end = begin + BLOCK < dim ? begin + BLOCK : dim;
        mix_block((const float *)u->data + token * wide, (const float *)n->data + token * wide, dim, wide / dim, begin,
                  end, (float *)out->data + token * dim);
    }
}

/* ---- the same with U of a low rank ----
 *
 * A product with a short inner dimension spends its time adding up lanes and writing the wide result. Here rows of U lie in
 * the lanes, and the result is mixed before it leaves the registers. */

enum {
    SHORT_RANK = 64, /* up to here it is faster than ggml's product and run_mix: 4 times at 32 */
    TURNED = 64      /* rows of U that are turned at a time, to [rank][TURNED] in the first-level cache */
};

/* Rows [first, first + rows) of U, of any type; where rows is less than TURNED the rest stays. */
static void turn_rows(const struct ggml_tensor *up, size_t first, size_t rows, float out[SHORT_RANK * TURNED])
{
    const ggml_to_float_t to_float = ggml_get_type_traits(up->type)->to_float;
    const int64_t rank = up->ne[0];
    for (size_t r = 0; r < rows; r++) {
        float row[SHORT_RANK];
        const char *from = (const char *)up->data + (first + r) * up->nb[1];
        if (up->type == GGML_TYPE_F32) {
            memcpy(row, from, (size_t)rank * sizeof *row);
        } else {
            to_float(from, row, rank);
        }
        for (int64_t k = 0; k < rank; k++) {
            out[(size_t)k * TURNED + r] = row[k];
        }
    }
}

/* out = U low for TURNED rows. */
static inline void turned_product(const float *restrict turned, const float *restrict low, size_t rank,
                                  float out[TURNED])
{
    float sums[TURNED] = {0};
    for (size_t k = 0; k < rank; k++) {
        for (size_t r = 0; r < TURNED; r++) {
            sums[r] += turned[k * TURNED + r] * low[k];
        }
    }
    memcpy(out, sums, sizeof sums);
}

/* Adds one stream's part to elements [first, first + rows) of x, of all tokens. */
static void mix_stream(struct ggml_tensor *out, const float *turned, size_t stream, size_t first, size_t rows)
{
    const struct ggml_tensor *low = out->src[1], *n = out->src[2];
    const size_t dim = (size_t)out->ne[0], rank = (size_t)low->ne[0], wide = (size_t)n->ne[0];
    for (size_t t = 0; t < (size_t)out->ne[1]; t++) {
        const float *from = (const float *)n->data + t * wide + stream * dim + first;
        float *x = (float *)out->data + t * dim + first, u[TURNED];
        turned_product(turned, (const float *)low->data + t * rank, rank, u);
        for (size_t i = 0; i < rows; i++) {
            const float mixed = sigmoid_f32(u[i]) * from[i];
            x[i] = stream == 0 ? mixed : x[i] + mixed;
        }
    }
}

static void scale_rows(struct ggml_tensor *out, size_t first, size_t rows, float scale)
{
    for (size_t t = 0; t < (size_t)out->ne[1]; t++) {
        float *x = (float *)out->data + t * (size_t)out->ne[0] + first;
        for (size_t i = 0; i < rows; i++) {
            x[i] *= scale;
        }
    }
}

static void run_mix_low(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *up = out->src[0];
    const size_t dim = (size_t)out->ne[0], streams = (size_t)up->ne[1] / dim;
    const share blocks = share_of((dim + TURNED - 1) / TURNED, ith, nth);
    float turned[SHORT_RANK * TURNED] = {0};
    for (size_t block = blocks.begin; block < blocks.end; block++) {
        const size_t first = block * TURNED, rows = dim - first < TURNED ? dim - first : TURNED;
        for (size_t s = 0; s < streams; s++) {
            turn_rows(up, s * dim + first, rows, turned);
            mix_stream(out, turned, s, first, rows);
        }
        scale_rows(out, first, rows, 1.0f / (float)streams);
    }
}

/* ---- reading ---- */

/* d = silu(d / streams), in place. */
static void run_squash(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const float scale = 1.0f / (float)*(const uint32_t *)user;
    float *x = out->data;
    const share work = share_of((size_t)ggml_nelements(out), ith, nth);
    for (size_t i = work.begin; i < work.end; i++) {
        const float v = x[i] * scale;
        x[i] = v * sigmoid_f32(v);
    }
}

static struct ggml_tensor *mixed(graph_builder *b, struct ggml_tensor *up, struct ggml_tensor *low,
                                 struct ggml_tensor *n)
{
    const int64_t dim = b->shape->embedding;
    if (up->ne[0] <= SHORT_RANK) {
        struct ggml_tensor *sources[] = {up, low, n};
        return custom_node(b, dim, n->ne[1], 1, sources, 3, run_mix_low, NULL);
    }
    struct ggml_tensor *sources[] = {matrix_product(b, up, low), n};
    return custom_node(b, dim, n->ne[1], 1, sources, 2, run_mix, NULL);
}

hyper_input hyper_read(graph_builder *b, const hyper_weights *weights, struct ggml_tensor *residual)
{
    struct ggml_tensor *n = norm_streams(b, weights->norm, residual);
    struct ggml_tensor *low = matrix_product(b, weights->down, n);
    low = ggml_custom_inplace(b->context, low, NULL, 0, run_squash, GGML_N_TASKS_MAX,
                              keep_params(b, &b->shape->streams, sizeof b->shape->streams));
    hyper_input input = {mixed(b, weights->up, low, n), NULL};
    if (weights->inject != NULL) {
        input.gains = matrix_product(b, weights->inject, n);
    }
    return input;
}

static void run_add(struct ggml_tensor *out, int ith, int nth, void *user)
{
    (void)user;
    const struct ggml_tensor *y = out->src[1], *gains = out->src[2];
    const size_t dim = (size_t)out->ne[0], streams = (size_t)out->ne[1];
    const share rows = share_of(streams * (size_t)out->ne[2], ith, nth);
    for (size_t row = rows.begin; row < rows.end; row++) {
        float *to = (float *)out->data + row * dim;
        const float *from = (const float *)y->data + row / streams * dim;
        const float gain = 2.0f * sigmoid_f32(((const float *)gains->data)[row] / (float)streams);
        for (size_t i = 0; i < dim; i++) {
            to[i] += gain * from[i];
        }
    }
}

struct ggml_tensor *hyper_write(graph_builder *b, struct ggml_tensor *residual, const hyper_input *input,
                                struct ggml_tensor *y)
{
    struct ggml_tensor *sources[] = {y, input->gains};
    return ggml_custom_inplace(b->context, residual, sources, 2, run_add, GGML_N_TASKS_MAX, NULL);
}
