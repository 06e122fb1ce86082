/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and generating with one session. */
#include "console/generation.h"

#include "console/clock.h"
#include "console/device_option.h"
#include "console/engine_options.h"
#include "console/memory.h"
#include "console/plan_table.h"
#include "console/progress.h"
#include "console/utf8.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool good(const generation *g, qsa_status status)
{
    if (status != QSA_OK)
        engine_say(g->command);
    return status == QSA_OK;
}

static bool is_interrupted(const generation *g)
{
    return g->interrupted && *g->interrupted;
}

/* ---- opening ---- */

/* The sampler, with biases against the ends that are ignored. */
static bool open_sampler(generation *g, const generation_options *o)
{
    const size_t n_ends = o->ignores_ends ? g->info.end_count : 0, n = o->sampler.bias_count;
    qsa_sampler_options sampler = o->sampler;
    qsa_logit_bias *biases = memory_new(n + n_ends, sizeof *biases);
    for (size_t i = 0; i < n; i++)
        biases[i] = o->sampler.biases[i];
    for (size_t i = 0; i < n_ends; i++)
        biases[n + i] = (qsa_logit_bias){g->info.ends[i], -INFINITY};
    sampler.biases = biases;
    sampler.bias_count = n + n_ends;
    const bool is_good = good(g, qsa_sampler_create(&sampler, g->info.tokens, &g->sampler)) &&
                         good(g, qsa_stops_create(o->stops, o->n_stops, &g->stops));
    free(biases);
    return is_good;
}

static bool open_session(generation *g, const generation_options *o)
{
    if (!o->load)
        return good(g, qsa_session_open(g->context, &g->session));
    const double begin = clock_seconds();
    if (!good(g, qsa_session_load(g->context, o->load, o->has_seed ? NULL : g->sampler, &g->session)))
        return false;
    g->loaded = qsa_session_tokens(g->session);
    qsa_sampler_accept(g->sampler, qsa_session_list(g->session), g->loaded);
    g->load_seconds = clock_seconds() - begin;
    return true;
}

bool generation_open(generation *g, const char *command, const qsa_model *model, const generation_options *options)
{
    *g = (generation){.command = command, .model = model, .limit = options->context.context, .options = options};
    qsa_model_get_info(model, &g->info);
    g->logits = memory_new(g->info.vocabulary, sizeof *g->logits);
    qsa_context_options context = options->context;
    context.device = device_in_use();
    plan_warn(command, model, &context);
    if (!good(g, qsa_context_create(model, &context, &g->context)))
        return false;
    engine_say_threads(command, g->context, &context);
    return open_sampler(g, options) && open_session(g, options);
}

void generation_close(generation *g)
{
    qsa_sampler_destroy(g->sampler);
    qsa_session_close(g->session);
    qsa_context_destroy(g->context);
    qsa_stops_destroy(g->stops);
    free(g->logits);
}

/* ---- reading ---- */

typedef struct reading {
    generation *g;
    size_t n;
    double begin;
} reading;

static bool after_chunk(void *user, size_t fed)
{
    const reading *r = user;
    generation *g = r->g;
    g->read = fed;
    g->read_seconds = clock_seconds() - r->begin;
    progress_show(fed, r->n, g->read_seconds);
    return !is_interrupted(g);
}

bool generation_read(generation *g, const int32_t *tokens, size_t n)
{
    assert(n > 0);
    reading r = {g, n, clock_seconds()};
    qsa_sampler_accept(g->sampler, tokens, n);
    const qsa_status status = qsa_session_feed(g->session, tokens, n, g->logits, after_chunk, &r);
    return status == QSA_E_CANCELLED || good(g, status);
}

bool generation_recall(generation *g)
{
    const uint64_t n = qsa_session_tokens(g->session);
    assert(n > 0);
    int32_t *list = memory_new(n, sizeof *list);
    memcpy(list, qsa_session_list(g->session), n * sizeof *list);
    const bool is_good = good(g, qsa_session_want(g->session, list, n, g->logits, NULL, NULL, NULL));
    free(list);
    return is_good;
}

/* ---- writing ---- */

static bool write_out(const generation *g, const char *bytes, size_t n)
{
    if (n == 0 || (fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0))
        return true;
    options_say(g->command, "cannot write to standard output: %s", strerror(errno));
    return false;
}

/* Writes whole characters; keeps the bytes of one that is not whole yet. */
static bool write_whole(generation *g, const char *bytes, size_t n)
{
    char *text = memory_new(g->n_cut + n, 1);
    memcpy(text, g->cut, g->n_cut);
    memcpy(text + g->n_cut, bytes, n);
    n += g->n_cut;
    const size_t whole = utf8_whole(text, n);
    g->n_cut = n - whole;
    assert(g->n_cut < sizeof g->cut);
    memcpy(g->cut, text + whole, g->n_cut);
    const bool is_written = write_out(g, text, whole);
    free(text);
    return is_written;
}

/* Sets g->ending at a stop string. */
static bool write_token(generation *g, int32_t token)
{
    const char *bytes, *text;
    size_t n, n_text;
    if (!good(g, qsa_model_token_bytes(g->model, token, &bytes, &n)))
        return false;
    if (!g->options->shows_controls && qsa_model_is_control(g->model, token))
        n = 0;
    if (!good(g, qsa_stops_take(g->stops, bytes, n, &text, &n_text)))
        return false;
    if (qsa_stops_found(g->stops, NULL))
        g->ending = "stop string";
    return write_whole(g, text, n_text);
}

/* What was held back for a stop string that did not come, and for a character that stays cut. */
static bool write_rest(generation *g)
{
    const char *text;
    size_t n;
    qsa_stops_held(g->stops, &text, &n);
    return write_whole(g, text, n) && write_out(g, g->cut, g->n_cut);
}

static bool is_full(const generation *g)
{
    return qsa_session_tokens(g->session) == g->limit;
}

/* One token. Sets g->ending where it is the last one. */
static bool write_next(generation *g, uint32_t tokens, bool keeps_last)
{
    int32_t token;
    if (keeps_last && is_full(g)) {
        g->ending = "the context is full";
        return true;
    }
    if (!good(g, qsa_sampler_next(g->sampler, g->logits, &token)))
        return false;
    if (qsa_model_is_end(g->model, token)) {
        g->ending = "end of text";
        return true;
    }
    if (!write_token(g, token))
        return false;
    g->generated++;
    if (g->ending == NULL && g->generated == tokens)
        g->ending = "";
    else if (g->ending == NULL && is_full(g))
        g->ending = "the context is full";
    if (g->ending && !keeps_last)
        return true; /* nobody asks what would follow */
    if (!good(g, qsa_session_feed(g->session, &token, 1, g->logits, NULL, NULL)))
        return false;
    g->decoded++;
    return true;
}

bool generation_write(generation *g, uint32_t tokens, bool keeps_last)
{
    const double begin = clock_seconds();
    bool is_good = true;
    g->ending = tokens == 0 ? "" : NULL;
    while (is_good && !g->ending && !is_interrupted(g))
        is_good = write_next(g, tokens, keeps_last);
    g->generate_seconds = clock_seconds() - begin;
    return is_good && write_rest(g);
}
