/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a session to any depth without running the model, to measure speed at that depth: random K, V and index keys go
 * straight into the cache. */
#include "base/error.h"
#include "base/splitmix64.h"
#include "model/state.h"
#include "session/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_TOKENS = 512 };

/* Magnitude of the random recurrent states: small against what tokens add to them. */
static const float STATE_SIZE = 1.0f / 128;

/* ---- random numbers ---- */

/* Uniform in [-size, size]. */
static void fill_floats(uint64_t *random, float *out, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(int32_t)(uint32_t)(splitmix64_next(random) >> 32) / 2147483648.0f * size;
}

static void fill_ids(uint64_t *random, int32_t *out, uint64_t n, uint32_t vocabulary)
{
    assert(vocabulary > 0 && vocabulary <= INT32_MAX);
    for (uint64_t i = 0; i < n; i++)
        out[i] = (int32_t)((splitmix64_next(random) >> 32) * vocabulary >> 32);
}

/* ---- K, V and index ---- */

/* One random table stands in for all projections: each layer of each step reads k, v and raw keys from it, starting at
 * random rows. */
typedef struct filler {
    qsa_context *context;
    qsa_threads *threads;
    uint64_t random;
    uint32_t step_tokens;
    size_t row;   /* floats */
    float *table; /* [2 * step_tokens][row] */
    int32_t *ids; /* of the new tokens */
} filler;

static qsa_strided rows_of(filler *f, size_t head_stride)
{
    const uint64_t first = (splitmix64_next(&f->random) >> 32) % f->step_tokens;
    return (qsa_strided){f->table + first * f->row, f->row, head_stride};
}

static qsa_status fill_layer(filler *f, qsa_step *step, uint32_t layer)
{
    assert(layer < f->context->config.layers);
    const qsa_config *c = &f->context->config;
    const qsa_strided unread = {f->table, 0, 0}; /* a layer without output does not read queries */
    qsa_tensors tensors = {.q = unread, .index_q = unread};
    tensors.k = rows_of(f, c->head_dim);
    tensors.v = rows_of(f, c->head_dim);
    tensors.raw_key = rows_of(f, 0);
    return qsa_threads_layer(f->threads, step, layer, &tensors, &(qsa_output){NULL, 0, 0});
}

static qsa_status fill_step(filler *f, qsa_seq seq, int64_t position, uint32_t tokens)
{
    assert(tokens > 0 && tokens <= f->step_tokens);
    const qsa_entry entry = {seq, position, tokens, NULL};
    qsa_step *step = NULL;
    qsa_status status = qsa_step_begin(f->context->cache, &entry, 1, &step);
    for (uint32_t layer = 0; status == QSA_OK && layer < f->context->config.layers; layer++)
        status = fill_layer(f, step, layer);
    if (step == NULL)
        return engine_fail_as_library(status);
    ENGINE_TRY_LIBRARY(qsa_step_commit(step, NULL)); /* after a failed layer: aborts and returns its error */
    return QSA_OK;
}

static qsa_status fill_sequence(filler *f, qsa_session *s, uint64_t tokens)
{
    assert(f->context == s->context && f->step_tokens > 0);
    const int64_t begin = s->anchor + (int64_t)s->now->tokens;
    for (uint64_t done = 0; done < tokens;) {
        const uint64_t n = tokens - done < f->step_tokens ? tokens - done : f->step_tokens;
        const qsa_status status = fill_step(f, s->seq, begin + (int64_t)done, (uint32_t)n);
        if (status != QSA_OK) {
            if (done > 0)
                session_restore_sequence(s);
            return status;
        }
        done += n;
    }
    return QSA_OK;
}

/* ---- qsa_session_fill ---- */

static qsa_status check_fill(const qsa_session *s, uint64_t tokens)
{
    if (s == NULL || tokens == 0)
        return engine_fail(QSA_E_ARGUMENT, "qsa_session_fill: session is NULL or tokens is 0");
    ENGINE_TRY(context_idle(s->context));
    return context_check_room(s->context, tokens);
}

static qsa_status filler_create(qsa_session *s, uint64_t tokens, uint64_t seed, filler *out)
{
    qsa_context *c = s->context;
    const uint32_t chunk = c->options.chunk, step = chunk < STEP_TOKENS ? chunk : STEP_TOKENS;
    const size_t kv = (size_t)c->config.kv_heads * c->config.head_dim;
    const size_t row = kv > c->config.index_dim ? kv : c->config.index_dim, floats = 2 * (size_t)step * row;
    *out = (filler){.context = c, .random = seed, .step_tokens = step, .row = row};
    out->table = malloc(floats * sizeof *out->table);
    out->ids = malloc(tokens * sizeof *out->ids);
    if (out->table == NULL || out->ids == NULL)
        return engine_fail(QSA_E_MEMORY, "no memory for random tokens");
    fill_floats(&out->random, out->table, floats, 1.0f);
    fill_ids(&out->random, out->ids, tokens, c->model->shape.vocabulary);
    ENGINE_TRY_LIBRARY(qsa_threads_create(forward_threads(c->options.threads), &out->threads));
    return session_reserve(s, s->now->tokens + tokens);
}

static void filler_free(filler *f)
{
    qsa_threads_destroy(f->threads);
    free(f->ids);
    free(f->table);
}

qsa_status qsa_session_fill(qsa_session *session, uint64_t tokens, uint64_t seed)
{
    ENGINE_TRY(check_fill(session, tokens));
    filler f;
    qsa_status status = filler_create(session, tokens, seed, &f);
    if (status == QSA_OK)
        status = fill_sequence(&f, session, tokens);
    if (status == QSA_OK) {
        fill_floats(&f.random, session->spare->floats, state_floats(&session->context->model->shape), STATE_SIZE);
        session_advance(session, f.ids, tokens, NULL);
        session_keep_checkpoint(session);
    }
    filler_free(&f);
    return status;
}
