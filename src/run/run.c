/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of positions: classification, windows, views, the append rule. */
#include "run/run.h"

#include "base/status.h"

#include <assert.h>
#include <inttypes.h>

static bool is_padding(const uint8_t *is_token, size_t i)
{
    return is_token != NULL && is_token[i] == 0;
}

qsa_status qsa_run_classify(const int64_t *positions, const uint8_t *is_token, size_t n, qsa_run *out_run)
{
    if (out_run == NULL || (positions == NULL && n > 0))
        return qsa_fail(QSA_E_ARGUMENT, "run: NULL argument");
    qsa_run run = {0};
    while (run.padding < n && is_padding(is_token, run.padding))
        run.padding++;
    size_t i = run.padding;
    for (; i < n && !is_padding(is_token, i); i++) {
        int64_t position = positions[i];
        if (position < 0 || position > QSA_MAX_POSITION)
            return qsa_fail(QSA_E_LIMIT, "entry %zu: position %" PRId64 " is outside 0 .. 2147483647", i, position);
        if (i == run.padding)
            run.anchor = position;
        else if (position != run.frontier)
            return qsa_fail(QSA_E_HOLE, "entry %zu: expected position %" PRId64 ", found %" PRId64, i, run.frontier,
                            position);
        run.frontier = position + 1;
    }
    run.tokens = i - run.padding;
    for (; i < n; i++)
        if (!is_padding(is_token, i))
            return qsa_fail(QSA_E_HOLE, "entry %zu: a token after padding inside the run; expected position %" PRId64,
                            i, run.frontier);
    *out_run = run;
    return QSA_OK;
}

int64_t qsa_run_window_anchor(int64_t anchor, int64_t position, uint32_t ratio, uint64_t window)
{
    assert(anchor >= 0 && position + 1 >= anchor && ratio > 0 && (window == 0 || window >= ratio));
    if (window == 0 || (uint64_t)(position + 1 - anchor) <= window)
        return anchor;
    uint64_t beyond = (uint64_t)(position + 1 - anchor) - window;
    return anchor + (int64_t)((beyond + ratio - 1) / ratio * ratio);
}

qsa_status qsa_run_view(int64_t anchor, int64_t position, uint32_t ratio, uint32_t budget, uint64_t window,
                        qsa_view *out_view)
{
    if (out_view == NULL)
        return qsa_fail(QSA_E_ARGUMENT, "view: NULL argument");
    if (ratio == 0 || ratio > QSA_MAX_RATIO || (ratio & (ratio - 1)) != 0)
        return qsa_fail(QSA_E_ARGUMENT, "ratio %" PRIu32 " is not a power of two up to %d", ratio, QSA_MAX_RATIO);
    if (budget == 0 || budget % ratio != 0)
        return qsa_fail(QSA_E_ARGUMENT, "budget %" PRIu32 " is not a multiple of ratio %" PRIu32, budget, ratio);
    if (window != 0 && window < ratio)
        return qsa_fail(QSA_E_ARGUMENT, "window %" PRIu64 " is below ratio %" PRIu32, window, ratio);
    if (anchor < 0 || position > QSA_MAX_POSITION)
        return qsa_fail(QSA_E_LIMIT, "position outside 0 .. 2147483647");
    if (position < anchor)
        return qsa_fail(QSA_E_RANGE, "position %" PRId64 " is before the anchor %" PRId64, position, anchor);
    qsa_view view;
    view.anchor = qsa_run_window_anchor(anchor, position, ratio, window);
    view.tokens = (uint64_t)(position - view.anchor + 1);
    view.first_group = (uint64_t)(view.anchor - anchor) / ratio;
    view.groups = view.tokens / ratio;
    view.tail = (uint32_t)(view.tokens % ratio);
    uint64_t chosen = view.groups < budget / ratio ? view.groups : budget / ratio;
    view.attended = chosen * ratio + view.tail;
    *out_view = view;
    return QSA_OK;
}

qsa_status qsa_run_check_append(int64_t expected, int64_t position, uint32_t tokens, size_t entry)
{
    assert(expected >= 0 && expected <= QSA_MAX_POSITION + 1);
    if (position < expected)
        return qsa_fail(QSA_E_STORED, "entry %zu: position %" PRId64 " is already stored; expected %" PRId64, entry,
                        position, expected);
    if (position > expected)
        return qsa_fail(QSA_E_HOLE, "entry %zu: a hole: expected position %" PRId64 ", found %" PRId64, entry, expected,
                        position);
    return qsa_run_check_range(position, tokens, entry);
}

qsa_status qsa_run_check_range(int64_t position, uint32_t tokens, size_t entry)
{
    assert(tokens > 0);
    if (position < 0 || position > QSA_MAX_POSITION || tokens - 1 > QSA_MAX_POSITION - position)
        return qsa_fail(QSA_E_LIMIT,
                        "entry %zu: %" PRIu32 " tokens at position %" PRId64 " do not fit in 0 .. 2147483647", entry,
                        tokens, position);
    return QSA_OK;
}

qsa_status qsa_run_relative(qsa_triple triple, int64_t frame, size_t entry, uint32_t token, qsa_triple *out)
{
    assert(frame >= -QSA_MAX_POSITION && frame <= QSA_MAX_POSITION);
    const int32_t in[3] = {triple.t, triple.h, triple.w};
    int32_t relative[3];
    for (int axis = 0; axis < 3; axis++) {
        int64_t offset = (int64_t)in[axis] - frame;
        if (offset > QSA_MAX_ROTARY_OFFSET || offset < -(int64_t)QSA_MAX_ROTARY_OFFSET)
            return qsa_fail(QSA_E_LIMIT,
                            "entry %zu, token %" PRIu32 ": rotary coordinate %c = %" PRId32
                            " is more than 2^24 from the frame %" PRId64,
                            entry, token, "thw"[axis], in[axis], frame);
        relative[axis] = (int32_t)offset;
    }
    *out = (qsa_triple){relative[0], relative[1], relative[2]};
    return QSA_OK;
}
