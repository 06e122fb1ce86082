/* SPDX-License-Identifier: Apache-2.0 */
/* What the operations of a forward pass cost besides products and QSA, one thread, of one layer: at the released widths
 * and at those of the quoter, for calls of 512 tokens and of one, for every instruction set that runs here. Bytes are
 * those of inputs and outputs, as if they came from memory; those of few tokens lie in cache.
 *
 * usage: bench_ops [--json] [ISA]      of all instruction sets, or of one */
#include "bench/cases.h"

#include "base/float_env.h"
#include "ops/ops.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model {
    const char *name;
    size_t embedding, streams, rank, key_heads, value_heads, dim, taps, experts, used, width, q_heads, q_dim;
} model;

static const model MODELS[] = {
    {"released", 2560, 4, 320, 16, 48, 128, 4, 512, 10, 640, 24, 256},
    {"quoter", 1024, 4, 32, 2, 4, 128, 4, 2, 1, 32, 4, 64},
};

enum { MOST_ARRAYS = 64 };

/* Every operation with its arrays. */
typedef struct work {
    const ops_table *table;
    model m;
    size_t tokens, array_count;
    float *arrays[MOST_ARRAYS]; /* all that the operations have */
    ops_norm norm;
    ops_squash squash;
    ops_mix mix;
    ops_residual residual;
    ops_conv conv;
    ops_unit unit;
    ops_gates gates;
    ops_delta delta;
    ops_gated_norm gated_norm;
    ops_route route;
    ops_swiglu swiglu;
    ops_combine combine;
    ops_ngram_gate ngram_gate;
    ops_ngram_add ngram_add;
    ops_gate gate;
    float *fades, *fresh; /* of the operation that is measured */
    size_t fading;
} work;

/* ---- arrays ---- */

static float *floats(work *w, size_t count)
{
    static uint32_t state = 1;
    float *x = aligned_alloc(64, (count * sizeof *x + 63) / 64 * 64);
    if (!x || w->array_count == MOST_ARRAYS) {
        fprintf(stderr, "bench_ops: no room for %zu numbers\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-23f - 1.0f; /* [-1, 1) */
    }
    return w->arrays[w->array_count++] = x;
}

static void prepare_hyper(work *w)
{
    const size_t n = w->tokens, e = w->m.embedding, s = w->m.streams;
    float *residual = floats(w, n * s * e), *normed = floats(w, n * s * e), *x = floats(w, n * e);
    w->norm = (ops_norm){residual, floats(w, s * e), e, s, 1e-6f, normed};
    w->squash = (ops_squash){floats(w, n * w->m.rank), s};
    w->mix = (ops_mix){floats(w, n * s * e), normed, e, s, x};
    w->residual = (ops_residual){x, floats(w, n * s), s, e, s, residual};
    w->ngram_gate = (ops_ngram_gate){normed, residual, x, e, s, floats(w, n * s * e)};
    w->ngram_add = (ops_ngram_add){normed, w->ngram_gate.out, residual};
}

static void prepare_delta(work *w)
{
    const model *m = &w->m;
    const size_t n = w->tokens, channels = (2 * m->key_heads + m->value_heads) * m->dim,
                 inner = m->value_heads * m->dim;
    const size_t state = m->value_heads * ops_state_blocks(m->dim) * m->dim * OPS_STATE_COLUMNS;
    float *qkv = floats(w, n * channels), *kq = floats(w, n * m->key_heads), *k = qkv + m->key_heads * m->dim;
    float *decay = floats(w, n * m->value_heads), *beta = floats(w, n * m->value_heads), *o = floats(w, n * inner);
    w->conv = (ops_conv){floats(w, n * channels),
                         floats(w, (m->taps - 1) * channels),
                         floats(w, m->taps * channels),
                         channels,
                         n,
                         channels,
                         m->taps,
                         1,
                         qkv};
    w->unit = (ops_unit){qkv, k, channels, m->key_heads, m->dim, kq};
    float *a = floats(w, m->value_heads);
    for (size_t i = 0; i < m->value_heads; i++)
        a[i] = -fabsf(a[i]); /* decays below 1 */
    w->gates = (ops_gates){a, floats(w, m->value_heads), m->value_heads, decay, beta};
    w->delta = (ops_delta){.q = qkv,
                           .k = k,
                           .v = k + m->key_heads * m->dim,
                           .stride = channels,
                           .kq = kq,
                           .decay = decay,
                           .beta = beta,
                           .before = floats(w, state),
                           .tokens = n,
                           .key_heads = m->key_heads,
                           .value_heads = m->value_heads,
                           .dim = m->dim,
                           .after = floats(w, state),
                           .out = o};
    w->gated_norm = (ops_gated_norm){floats(w, n * inner), floats(w, m->dim), m->dim, 1e-6f, o};
}

static void prepare_experts(work *w)
{
    const model *m = &w->m;
    const size_t n = w->tokens, pairs = n * m->used;
    int32_t *chosen = (int32_t *)floats(w, pairs), *place = (int32_t *)floats(w, pairs);
    for (size_t i = 0; i < pairs; i++)
        place[i] = (int32_t)((i * 7919) % pairs);
    float *weight = floats(w, pairs);
    w->route = (ops_route){floats(w, n * m->experts), m->experts, m->used, chosen, weight};
    w->swiglu = (ops_swiglu){floats(w, pairs * m->width), floats(w, pairs * m->width), m->width, m->width, m->width,
                             floats(w, pairs * m->width)};
    w->combine = (ops_combine){floats(w, pairs * m->embedding),
                               place,
                               weight,
                               floats(w, n * m->embedding),
                               floats(w, n),
                               m->used,
                               m->embedding,
                               floats(w, n * m->embedding)};
    w->gate = (ops_gate){
        floats(w, n * m->q_heads * 2 * m->q_dim), m->q_heads * 2 * m->q_dim, 2 * m->q_dim, m->q_heads, m->q_dim,
        floats(w, n * m->q_heads * m->q_dim)};
}

/* ---- operations ---- */

#define RUN(name, units)                                                                                               \
    static void run_##name(void *context)                                                                              \
    {                                                                                                                  \
        const work *w = context;                                                                                       \
        w->table->name(&w->name, (ops_range){0, units});                                                               \
    }

RUN(norm, w->tokens * w->m.streams)
RUN(squash, w->tokens * w->m.rank)
RUN(mix, w->tokens *ops_pieces(w->m.embedding))
RUN(residual, w->tokens * w->m.streams)
RUN(conv, w->conv.channels)
RUN(unit, w->tokens * w->m.key_heads)
RUN(gates, w->tokens)
RUN(delta, w->m.value_heads *ops_state_blocks(w->m.dim))
RUN(gated_norm, w->tokens * w->m.value_heads)
RUN(route, w->tokens)
RUN(swiglu, w->tokens * w->m.used)
RUN(combine, w->tokens *ops_pieces(w->m.embedding))
RUN(ngram_gate, w->tokens * w->m.streams)
RUN(ngram_add, w->tokens * w->m.streams * w->m.embedding)
RUN(gate, w->tokens * w->m.q_heads)

/* Multiply-adds that a sigmoid counts as: e^x has nine. */
enum { SIGMOID = 12 };

/* floats: that are read and written; multiply_adds: both of one call. */
typedef struct cost {
    const char *name;
    void (*run)(void *context);
    double floats, multiply_adds;
    float *fades; /* what calls in place would drive to 0; NULL: nothing */
    size_t fading;
} cost;

enum { OPERATIONS = 15 };

static void list_costs(const work *w, cost *out)
{
    const model *m = &w->m;
    const double n = (double)w->tokens, row = n * (double)m->embedding, wide = row * (double)m->streams;
    const double rank = n * (double)m->rank, channels = n * (double)w->conv.channels;
    const double keys = n * (double)(m->key_heads * m->dim), inner = n * (double)(m->value_heads * m->dim);
    const double state = (double)(m->value_heads * m->dim * m->dim), used = (double)m->used;
    const double gates = n * (double)m->value_heads, logits = n * (double)m->experts;
    const double width = n * used * (double)m->width, heads = n * (double)(m->q_heads * m->q_dim);
    const cost costs[OPERATIONS] = {
        {"norm", run_norm, 2 * wide, 3 * wide, NULL, 0},
        {"squash", run_squash, 2 * rank, SIGMOID * rank, w->squash.x, w->tokens * m->rank},
        {"mix", run_mix, 2 * wide + row, (SIGMOID + 1) * wide, NULL, 0},
        {"residual", run_residual, 2 * wide + row, wide, NULL, 0},
        {"conv", run_conv, 2 * channels, (SIGMOID + (double)m->taps) * channels, NULL, 0},
        {"unit", run_unit, 4 * keys, 5 * keys, NULL, 0},
        {"gates", run_gates, 4 * gates, 4 * SIGMOID * gates, NULL, 0},
        {"delta", run_delta, 2 * state + channels + inner, 4 * n * state, NULL, 0},
        {"gated_norm", run_gated_norm, 3 * inner, (SIGMOID + 3) * inner, w->gated_norm.o,
         w->tokens * m->value_heads * m->dim},
        {"route", run_route, logits, logits, NULL, 0},
        {"swiglu", run_swiglu, 3 * width, (SIGMOID + 1) * width, NULL, 0},
        {"combine", run_combine, (used + 2) * row, (used + 1) * row, NULL, 0},
        {"ngram_gate", run_ngram_gate, 3 * wide + row, 2 * wide, NULL, 0},
        {"ngram_add", run_ngram_add, 4 * wide, 2 * wide, NULL, 0},
        {"gate", run_gate, 3 * heads, SIGMOID * heads, w->gate.x, w->tokens * m->q_heads * m->q_dim},
    };
    memcpy(out, costs, sizeof costs);
}

/* Numbers as they were drawn, into what the last call has made smaller. */
static void refill(void *context)
{
    const work *w = context;
    if (w->fades)
        memcpy(w->fades, w->fresh, w->fading * sizeof(float));
}

static void bench_work(bench_cases *cases, work *w)
{
    cost costs[OPERATIONS];
    prepare_hyper(w);
    prepare_delta(w);
    prepare_experts(w);
    list_costs(w, costs);
    for (size_t i = 0; i < OPERATIONS; i++) {
        w->fades = costs[i].fades;
        w->fading = costs[i].fading;
        w->fresh = floats(w, w->fading);
        char name[32];
        snprintf(name, sizeof name, "%s_%zu", costs[i].name, w->tokens);
        const bench_case one = {.name = name,
                                .type = w->m.name,
                                .isa = w->table->isa,
                                .bytes = w->tokens > 1 ? costs[i].floats * sizeof(float) : 0,
                                .operations = 2 * costs[i].multiply_adds,
                                .run = costs[i].run,
                                .before = refill,
                                .context = w};
        bench_cases_run(cases, &one);
    }
    for (size_t i = 0; i < w->array_count; i++)
        free(w->arrays[i]);
}

int main(int argc, char **argv)
{
    const bool is_json = argc > 1 && strcmp(argv[1], "--json") == 0;
    const char *only = argc > 1 + is_json ? argv[1 + is_json] : NULL;
    const size_t tokens[] = {512, 1};
    const qsa_float_env saved = qsa_float_env_enter();
    bench_cases cases;
    bench_cases_open(&cases, is_json, "operations of one layer, one thread");
    const ops_table *table;
    for (size_t i = 0; (table = ops_available(i)) != NULL; i++)
        for (size_t m = 0; m < sizeof MODELS / sizeof MODELS[0]; m++)
            for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
                work w = {.table = table, .m = MODELS[m], .tokens = tokens[t]};
                if (!only || strcmp(only, table->isa) == 0)
                    bench_work(&cases, &w);
            }
    bench_cases_close(&cases);
    qsa_float_env_leave(saved);
    return 0;
}
