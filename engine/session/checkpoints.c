/* SPDX-License-Identifier: Apache-2.0 */
#include "session/checkpoints.h"

#include "model/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- states ---- */

static size_t recurrent_floats(const qsa_context *c)
{
    return state_floats(&c->model->shape);
}

size_t state_size_bytes(const qsa_context *c)
{
    return plan_state_bytes(&c->model->shape);
}

session_state *state_new(qsa_context *c)
{
    session_state *state = calloc(1, state_size_bytes(c));
    if (state != NULL) {
        state->uses = 1;
        c->state_bytes += state_size_bytes(c);
    }
    return state;
}

void state_release(qsa_context *c, session_state *state)
{
    assert(state == NULL || state->uses > 0);
    if (state != NULL && --state->uses == 0) {
        c->state_bytes -= state_size_bytes(c);
        free(state);
    }
}

float *state_logits(const qsa_context *c, session_state *state)
{
    return state->floats + recurrent_floats(c);
}

void state_copy(const qsa_context *c, session_state *to, const session_state *from)
{
    const size_t logits = from->has_logits ? c->model->shape.vocabulary : 0;
    to->tokens = from->tokens;
    to->has_logits = from->has_logits;
    memcpy(to->floats, from->floats, (recurrent_floats(c) + logits) * sizeof *to->floats);
}

/* ---- checkpoints ---- */

static void remove_checkpoint(qsa_context *c, session_checkpoints *checkpoints, uint32_t index)
{
    if (checkpoints->at[index] == checkpoints->mark)
        checkpoints->mark = NULL;
    state_release(c, checkpoints->at[index]);
    checkpoints->n--;
    memmove(checkpoints->at + index, checkpoints->at + index + 1, (checkpoints->n - index) * sizeof(session_state *));
}

uint32_t checkpoints_choose(const uint64_t *at, uint32_t n, uint32_t spared)
{
    assert(n >= 2);
    const double end = (double)at[n - 1];
    double best = 2; /* no ratio is above 1 */
    uint32_t chosen = n - 1;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const double before = i == 0 ? 0 : (double)at[i - 1];
        const double ratio = ((double)at[i + 1] - before) / (end - before);
        if (i != spared && ratio < best) {
            best = ratio;
            chosen = i;
        }
    }
    return chosen;
}

void checkpoints_thin(qsa_context *c, session_checkpoints *checkpoints)
{
    while (checkpoints->n > c->options.checkpoints + (checkpoints->mark != NULL)) {
        uint64_t tokens[MAX_CHECKPOINTS + 2] = {0};
        uint32_t marked = checkpoints->n;
        for (uint32_t i = 0; i < checkpoints->n; i++) {
            tokens[i] = checkpoints->at[i]->tokens;
            marked = checkpoints->at[i] == checkpoints->mark ? i : marked;
        }
        remove_checkpoint(c, checkpoints, checkpoints->n == 1 ? 0 : checkpoints_choose(tokens, checkpoints->n, marked));
    }
}

session_state *checkpoints_keep(qsa_context *c, session_checkpoints *checkpoints, const session_state *state)
{
    session_state *last = checkpoints->n == 0 ? NULL : checkpoints->at[checkpoints->n - 1];
    if (last != NULL && last->tokens == state->tokens && last->has_logits >= state->has_logits)
        return last;
    assert(checkpoints->n < MAX_CHECKPOINTS + 2 && (last == NULL || last->tokens <= state->tokens));
    session_state *copy = state_new(c);
    if (copy == NULL)
        return NULL;
    state_copy(c, copy, state);
    if (last != NULL && last->tokens == state->tokens) { /* the same checkpoint, now with logits */
        checkpoints->mark = checkpoints->mark == last ? copy : checkpoints->mark;
        checkpoints->at[checkpoints->n - 1] = copy;
        state_release(c, last);
        return copy;
    }
    checkpoints->at[checkpoints->n++] = copy;
    return copy;
}

void checkpoints_cut(qsa_context *c, session_checkpoints *checkpoints, uint64_t tokens)
{
    while (checkpoints->n > 0 && checkpoints->at[checkpoints->n - 1]->tokens > tokens)
        remove_checkpoint(c, checkpoints, checkpoints->n - 1);
}

void checkpoints_drop_all(qsa_context *c, session_checkpoints *checkpoints)
{
    while (checkpoints->n > 0)
        remove_checkpoint(c, checkpoints, checkpoints->n - 1);
}

void checkpoints_share(qsa_context *c, session_checkpoints *to, const session_checkpoints *from, uint64_t tokens)
{
    assert(to->n == 0);
    for (uint32_t i = 0; i < from->n && from->at[i]->tokens <= tokens; i++) {
        from->at[i]->uses++;
        to->at[to->n++] = from->at[i];
    }
    checkpoints_thin(c, to);
}

session_state *checkpoints_before(const session_checkpoints *checkpoints, uint64_t tokens)
{
    session_state *found = NULL;
    for (uint32_t i = 0; i < checkpoints->n && checkpoints->at[i]->tokens <= tokens; i++)
        found = checkpoints->at[i];
    return found;
}
