/* SPDX-License-Identifier: Apache-2.0 */
#include "model/conv.h"

#include "model/elementwise.h"

typedef struct conv_params {
    conv_options options;
    const batch_layout *layout;
} conv_params;

/* The input of a session's token `token`, which is negative for tokens before the batch: they are in the tail. */
static const float *input_row(const float *x, const float *tail, size_t channels, int64_t tail_rows, int64_t token)
{
    return token < 0 ? tail + (size_t)(tail_rows + token) * channels : x + (size_t)token * channels;
}

/* Channels [c.begin, c.end) of one session: a part owns them for all tokens, so it may also write the new tail. */
static void conv_segment(const conv_options *o, const batch_segment *segment, const float *x, float *out,
                         size_t channels, share c)
{
    const int64_t tail_rows = (int64_t)(o->taps - 1) * o->dilation, n = segment->tokens;
    const float *tail = segment->before + o->state_offset;
    float *new_tail = segment->after + o->state_offset;
    for (int64_t t = 0; t < n; t++) {
        float *to = out + (size_t)t * channels;
        for (uint32_t k = 0; k < o->taps; k++) {
            const float *w = o->weights + (size_t)k * channels;
            const float *from = input_row(x, tail, channels, tail_rows, t - (int64_t)(o->taps - 1 - k) * o->dilation);
            for (size_t i = c.begin; i < c.end; i++)
                to[i] = k == 0 ? w[i] * from[i] : to[i] + w[i] * from[i];
        }
        for (size_t i = c.begin; i < c.end; i++)
            to[i] *= sigmoid_f32(to[i]);
    }
    for (int64_t r = 0; r < tail_rows; r++) {
        const float *from = input_row(x, tail, channels, tail_rows, n - tail_rows + r);
        memcpy(new_tail + (size_t)r * channels + c.begin, from + c.begin, (c.end - c.begin) * sizeof *from);
    }
}

static void run_conv(struct ggml_tensor *out, int ith, int nth, void *user)
{
    const conv_params *p = user;
    const size_t channels = (size_t)out->ne[0];
    const float *x = out->src[0]->data;
    for (size_t s = 0; s < p->layout->count; s++) {
        const batch_segment *segment = &p->layout->segments[s];
        const size_t first = segment->first * channels;
        conv_segment(&p->options, segment, x + first, (float *)out->data + first, channels,
                     share_of(channels, ith, nth));
    }
}

struct ggml_tensor *conv_silu(graph_builder *b, const conv_options *options, struct ggml_tensor *x)
{
    const conv_params params = {*options, b->layout};
    return custom_node(b, x->ne[0], x->ne[1], 1, &x, 1, run_conv, keep_params(b, &params, sizeof params));
}
