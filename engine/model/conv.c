/* SPDX-License-Identifier: Apache-2.0 */
#include "model/conv.h"

static void conv_segment(const pass *p, const batch_conv *c, const batch_segment *segment, ops_range channels)
{
    const size_t first = segment->first * c->channels;
    const ops_conv op = {.x = c->x + first,
                         .tail = segment->before + c->state_offset,
                         .weight = c->weights,
                         .x_stride = c->channels,
                         .tokens = segment->tokens,
                         .channels = c->channels,
                         .taps = c->taps,
                         .dilation = c->dilation,
                         .out = c->out + first};
    p->ops->conv(&op, channels);
    ops_conv_tail(&op, channels, segment->after + c->state_offset);
}

/* Unit: a channel of a session. */
static void task_conv_batch(const void *context, const void *operation, size_t begin, size_t end)
{
    const pass *p = context;
    const batch_conv *c = operation;
    while (begin < end) {
        const size_t segment = begin / c->channels, first = segment * c->channels;
        const size_t stop = end - first < c->channels ? end - first : c->channels;
        conv_segment(p, c, &p->layout.segments[segment], (ops_range){begin - first, stop});
        begin = first + stop;
    }
}

void conv_batch(pass *p, const batch_conv *conv)
{
    enum { LEAST_GRAIN = 128 };
    const size_t grain = larger(LEAST_GRAIN, rows_grain(conv->taps * (size_t)p->tokens));
    run_task(p, task_conv_batch, conv, p->layout.count * conv->channels, grain);
}
