/* SPDX-License-Identifier: Apache-2.0 */
/* Selection through 262,144 tokens. */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <stdlib.h>

enum { DEEP_TOKENS = 262144, DEEP_CHUNK = 4096, DEEP_STREAM = 110 };

/* The indexer of the released shape over more tokens than a case can hold; attention is as small as possible. */
typedef struct deep_run {
    golden_case c; /* shape and norm weights; index_q of one query */
    oracle_shape shape;
    feed_run run;
    float *raw_key; /* [DEEP_CHUNK][index_dim] of the tokens being fed */
    float *zeros;   /* [DEEP_CHUNK][head_dim] */
    float *pooled;  /* [groups][index_dim] by the oracle */
    float *scores;
    uint32_t tokens; /* fed so far */
} deep_run;

static bool deep_open(deep_run *d, report *r, int types)
{
    *d = (deep_run){.c = random_case(SHAPE_RELEASED, 1, 0, types)};
    d->c.final_qkv = true; /* selections only */
    d->shape = oracle_case_shape(&d->c);
    const uint32_t groups = DEEP_TOKENS / d->c.config.ratio;
    d->raw_key = memory_new((size_t)DEEP_CHUNK * d->c.config.index_dim, sizeof(float));
    d->zeros = memory_new((size_t)DEEP_CHUNK * d->c.config.rotary_dim, sizeof(float));
    d->pooled = memory_new((size_t)groups * d->c.config.index_dim, sizeof(float));
    d->scores = memory_new(groups, sizeof(float));
    d->run.config = feed_config(&d->c, &d->run.norms);
    d->run.config.capacity_tokens = DEEP_TOKENS;
    d->run.config.max_step_tokens = DEEP_CHUNK;
    return report_call(r, qsa_cache_create(&d->run.config, &d->run.cache), "cache") &&
           report_call(r, qsa_seq_open(d->run.cache, &d->run.seq), "open");
}

static void deep_close(deep_run *d)
{
    float *const arrays[] = {d->raw_key, d->zeros, d->pooled, d->scores};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    feed_close(&d->run);
    golden_case_free(&d->c);
}

static void deep_table(const deep_run *d, uint32_t position, float *out)
{
    const int32_t triple[3] = {(int32_t)position, (int32_t)position, (int32_t)position};
    oracle_cos_sin(&d->shape, triple, out);
}

/* The oracle's pooled keys of the tokens [first, first + n), both multiples of the ratio. */
static void deep_pool(deep_run *d, uint32_t first, uint32_t n)
{
    const golden_case *c = &d->c;
    for (uint32_t t = first; t + c->config.ratio <= first + n; t += c->config.ratio) {
        float table[QSA_MAX_DIM];
        deep_table(d, t, table);
        oracle_pool(&d->shape, d->raw_key + (size_t)(t - first) * c->config.index_dim, table,
                    d->pooled + (size_t)(t / c->config.ratio) * c->config.index_dim);
    }
}

/* Feeds n tokens; the last step computes output if a selection is wanted. */
static bool deep_feed(deep_run *d, report *r, uint32_t n, uint32_t *out_groups, uint32_t *out_n)
{
    const golden_case *c = &d->c;
    for (size_t i = 0; i < (size_t)n * c->config.index_dim; i++)
        d->raw_key[i] = random_value(DEEP_STREAM, (uint64_t)d->tokens * c->config.index_dim + i);
    float output[512];
    const qsa_strided zeros = {d->zeros, c->config.rotary_dim, c->config.rotary_dim};
    const qsa_tensors tensors = {.q = zeros,
                                 .k = zeros,
                                 .v = zeros,
                                 .index_q = {c->index_q, 0, c->config.index_dim},
                                 .raw_key = {d->raw_key, c->config.index_dim, 0}};
    const qsa_output out = {out_groups ? output : NULL, c->config.rotary_dim, c->config.rotary_dim};
    const qsa_entry entry = {.seq = d->run.seq, .position = d->tokens, .tokens = n};
    qsa_step *step;
    if (!report_call(r, qsa_step_begin(d->run.cache, &entry, 1, &step), "begin"))
        return false;
    qsa_status status = qsa_layer_begin(step, 0, &tensors, &out);
    for (uint32_t phase = 0; phase < QSA_PHASES; phase++)
        for (uint32_t part = 0; status == QSA_OK && part < 3; part++)
            status = qsa_layer_phase(step, phase, part, 3);
    if (status == QSA_OK && out_groups)
        status = qsa_step_selection(step, n - 1, out_groups, out_n);
    if (!report_call(r, status, "layer")) {
        qsa_step_abort(step);
        return false;
    }
    d->tokens += n;
    return report_call(r, qsa_step_commit(step, NULL), "commit");
}

/* Extends the run to `tokens` tokens, a multiple of the ratio, the last one alone, and compares its selection. */
static bool deep_query(deep_run *d, report *r, uint32_t tokens)
{
    const golden_case *c = &d->c;
    int32_t expected[512];
    uint32_t found[512], n_found = 0;
    while (d->tokens + c->config.ratio < tokens) {
        uint32_t n = tokens - c->config.ratio - d->tokens, first = d->tokens;
        n = n < DEEP_CHUNK ? n : DEEP_CHUNK;
        if (!deep_feed(d, r, n, NULL, NULL))
            return false;
        deep_pool(d, first, n);
    }
    uint32_t first = d->tokens;
    if (!deep_feed(d, r, c->config.ratio, found, &n_found))
        return false;
    deep_pool(d, first, c->config.ratio);
    float table[QSA_MAX_DIM], query[4 * 128];
    deep_table(d, tokens - 1, table);
    oracle_index_query(&d->shape, c->index_q, table, query);
    for (uint32_t j = 0; j < tokens / c->config.ratio; j++)
        d->scores[j] = oracle_score(&d->shape, query, d->pooled + (size_t)j * c->config.index_dim);
    const int n =
        oracle_select((int)(tokens / c->config.ratio), d->scores, (int)(c->config.budget / c->config.ratio), expected);
    return report_numbers(r, "groups at tokens", tokens, (const uint32_t *)expected, (size_t)n, found, n_found);
}

void check_deep_selection(report *r, bool quick)
{
    static const uint32_t depths[] = {2052, 2056, 4096, 16384, 32768, 65536, 131072, 196612, 262140, 262144};
    for (int types = TYPES_BF16; types >= KV_BF16; types -= quick ? TYPES_COUNT : INDEX_BF16) {
        deep_run d;
        bool good = deep_open(&d, r, types);
        for (size_t i = 0; good && i < sizeof depths / sizeof *depths; i++)
            if (!quick || depths[i] <= 32768)
                good = deep_query(&d, r, depths[i]);
        deep_close(&d);
    }
}
