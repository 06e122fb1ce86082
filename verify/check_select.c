/* SPDX-License-Identifier: Apache-2.0 */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/inputs.h"
#include "verify/naive.h"

#include <stdlib.h>
#include <string.h>

/* ---- selected ids ---- */

static void compare_selection(report *r, const feed_run *run, const naive_run *naive, uint32_t first)
{
    uint32_t *expected = memory_new(run->groups_size, sizeof *expected);
    for (uint32_t t = first; t < run->c->n; t++) {
        uint32_t n = naive_select(naive, t, expected);
        report_numbers(r, "groups of token", t, expected, n, run->groups + (size_t)t * run->groups_size,
                       run->n_groups[t]);
    }
    free(expected);
}

static void select_case(report *r, const golden_case *c, const feed_options *options)
{
    feed_run run;
    naive_run naive;
    if (report_call(r, feed_all(&run, c, options), "feed")) {
        naive_open(&naive, c);
        compare_selection(r, &run, &naive, options->first_output);
        naive_close(&naive);
    }
    feed_close(&run);
}

void lane_selected_ids(report *r, bool quick)
{
    static const int64_t anchors[] = {0, 1, 2, 3, 50};
    for (int types = 0; types < LANE_TYPES; types++)
        for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
            golden_case c = lane_case(&lane_small, 300, anchors[i], lane_kv_bf16(types), lane_index_bf16(types));
            select_case(r, &c, &(feed_options){.chunk = 64, .parts = 2});
            golden_case_free(&c);
        }
    golden_case c = lane_case(&lane_released, quick ? 2060 : 2600, 1003, true, true);
    select_case(r, &c, &(feed_options){.chunk = 512, .parts = 2, .first_output = c.n - 40});
    golden_case_free(&c);
}

/* ---- ties ---- */

enum { TIE_EQUAL, TIE_ZERO, TIE_BLOCKS, TIE_KINDS };

/* Raw keys whose rotated part is zero, so that equal raw keys give equal scores at any position: all equal, all turned
 * away from every query (scores of exactly 0), or blocks of ten groups of one of three kinds. */
static void make_ties(golden_case *c, int kind)
{
    const uint32_t dim = c->index_dim;
    for (uint32_t t = 0; t < c->n; t++)
        for (uint32_t d = 0; d < dim; d++) {
            uint32_t block = kind == TIE_BLOCKS ? t / c->ratio / 10 * 7 % 3 : 0;
            float key = d < c->rotary_dim ? 0 : d % 3 == block ? 2.0f : 1.0f;
            c->raw_key[(size_t)t * dim + d] = kind == TIE_ZERO ? -key : key;
        }
    for (size_t i = 0; i < (size_t)c->n * c->index_heads * dim; i++)
        c->index_q[i] = i % dim < c->rotary_dim ? 0 : (float)(1 + i % 3 + i / dim % 2);
    for (uint32_t d = 0; d < dim; d++)
        c->index_q_norm[d] = c->index_k_norm[d] = 1;
}

/* With all scores equal the oldest groups win. */
static void compare_oldest(report *r, const golden_case *c)
{
    feed_run run;
    if (report_call(r, feed_all(&run, c, &(feed_options){.chunk = 50, .parts = 3}), "feed")) {
        uint32_t oldest[64];
        for (uint32_t g = 0; g < run.groups_size; g++)
            oldest[g] = g;
        for (uint32_t t = 0; t < c->n; t++) {
            uint32_t groups = (t + 1) / c->ratio, n = groups < run.groups_size ? groups : run.groups_size;
            report_numbers(r, "equal scores, groups of token", t, oldest, n, run.groups + (size_t)t * run.groups_size,
                           run.n_groups[t]);
        }
    }
    feed_close(&run);
}

/* Few distinct scores, so that the edge of the budget lies inside a block of equal ones. */
static void compare_best(report *r, uint32_t n, uint32_t k, uint32_t distinct)
{
    float *scores = memory_new(n, sizeof *scores);
    uint32_t *expected = memory_new(k, sizeof *expected), *found = memory_new(k, sizeof *found), n_found = 0;
    for (uint32_t i = 0; i < n; i++)
        scores[i] = (float)((i * UINT64_C(2654435761) >> 7) % distinct) * 0.25f;
    uint32_t n_expected = naive_best(scores, n, k, expected);
    if (report_call(r, qsa_select(scores, n, k, found, &n_found), "qsa_select"))
        report_numbers(r, "groups of scores", n, expected, n_expected, found, n_found);
    free(scores);
    free(expected);
    free(found);
}

void lane_equal_scores(report *r, bool quick)
{
    for (int types = 0; types < LANE_TYPES; types += 2)
        for (int kind = 0; kind < TIE_KINDS; kind++) {
            golden_case c = lane_case(&lane_small, 300, 3, false, lane_index_bf16(types));
            make_ties(&c, kind);
            select_case(r, &c, &(feed_options){.chunk = 37, .parts = 2});
            if (kind != TIE_BLOCKS)
                compare_oldest(r, &c);
            golden_case_free(&c);
        }
    static const uint32_t counts[] = {1, 511, 512, 513, 600, 4095, 4096, 4097, 65536};
    for (size_t i = 0; i < sizeof counts / sizeof *counts - (quick ? 1 : 0); i++)
        for (uint32_t distinct = 1; distinct <= 1000; distinct *= 10)
            compare_best(r, counts[i], 512, distinct);
}

/* ---- rows ---- */

/* SPEC section 2: 4 * min(512, g) + n mod 4 tokens, strictly ascending, the last one n - 1 only if it is chosen. */
static void check_row(report *r, const feed_run *run, uint32_t t, uint32_t *row, uint32_t *expected)
{
    const uint32_t ratio = run->c->ratio, n = t + 1, groups = n / ratio;
    const uint32_t chosen = groups < run->groups_size ? groups : run->groups_size;
    const uint32_t *selected = run->groups + (size_t)t * run->groups_size;
    uint32_t size = 0;
    if (!report_call(r, qsa_row(selected, run->n_groups[t], ratio, n, row, &size), "qsa_row"))
        return;
    uint32_t n_expected = naive_row(run->c, t, selected, run->n_groups[t], expected);
    report_numbers(r, "row of token", t, expected, n_expected, row, size);
    report_same(r, size == chosen * ratio + n % ratio, "row of token %u: %u tokens", t, size);
    bool ascends = true;
    for (uint32_t i = 1; i < size; i++)
        ascends = ascends && row[i - 1] < row[i];
    report_same(r, ascends && size > 0 && row[size - 1] <= t, "row of token %u does not ascend", t);
    qsa_view view;
    if (report_call(r, qsa_run_view(0, t, ratio, run->c->budget, 0, &view), "qsa_run_view"))
        report_same(r, view.groups == groups && view.attended == size, "view of token %u", t);
}

void lane_rows(report *r, bool quick)
{
    golden_case c = lane_case(&lane_thin, quick ? 2100 : 4200, 0, false, false);
    feed_run run;
    if (report_call(r, feed_all(&run, &c, &(feed_options){.chunk = 700, .parts = 2}), "feed")) {
        uint32_t *row = memory_new(c.budget + c.ratio, sizeof *row);
        uint32_t *expected = memory_new(c.budget + c.ratio, sizeof *expected);
        for (uint32_t t = 0; t < c.n; t++)
            check_row(r, &run, t, row, expected);
        free(row);
        free(expected);
    }
    feed_close(&run);
    golden_case_free(&c);
}

/* ---- selection through 262,144 tokens ---- */

enum { DEEP_TOKENS = 262144, DEEP_CHUNK = 4096, DEEP_STREAM = 110 };

/* The indexer of the released shape over more tokens than a case can hold; attention is as small as it can be. */
typedef struct deep_run {
    golden_case c; /* shape and norm weights; index_q of one query */
    feed_run run;
    float *raw_key; /* [DEEP_CHUNK][index_dim] of the tokens being fed */
    float *zeros;   /* [DEEP_CHUNK][head_dim] */
    float *pooled;  /* [groups][index_dim] by the naive implementation */
    float *scores;
    uint32_t tokens; /* fed so far */
} deep_run;

static bool deep_open(deep_run *d, report *r, bool index_bf16)
{
    *d = (deep_run){.c = lane_case(&lane_released, 1, 0, true, index_bf16)};
    d->c.final_qkv = true; /* selections only */
    const uint32_t groups = DEEP_TOKENS / d->c.ratio;
    d->raw_key = memory_new((size_t)DEEP_CHUNK * d->c.index_dim, sizeof(float));
    d->zeros = memory_new((size_t)DEEP_CHUNK * d->c.rotary_dim, sizeof(float));
    d->pooled = memory_new((size_t)groups * d->c.index_dim, sizeof(float));
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
    naive_cos_sin(&d->c, triple, out);
}

/* The naive pooled keys of the tokens [first, first + n), both multiples of the ratio. */
static void deep_pool(deep_run *d, uint32_t first, uint32_t n)
{
    const golden_case *c = &d->c;
    for (uint32_t t = first; t + c->ratio <= first + n; t += c->ratio) {
        float table[2 * 512];
        deep_table(d, t, table);
        naive_pool(c, d->raw_key + (size_t)(t - first) * c->index_dim, table,
                   d->pooled + (size_t)(t / c->ratio) * c->index_dim);
    }
}

/* Feeds n tokens; the output of the last step's tokens is wanted where a selection is. */
static bool deep_feed(deep_run *d, report *r, uint32_t n, uint32_t *out_groups, uint32_t *out_n)
{
    const golden_case *c = &d->c;
    for (size_t i = 0; i < (size_t)n * c->index_dim; i++)
        d->raw_key[i] = lane_value(DEEP_STREAM, (uint64_t)d->tokens * c->index_dim + i);
    float output[512];
    const qsa_strided zeros = {d->zeros, c->rotary_dim, c->rotary_dim};
    const qsa_tensors tensors = {.q = zeros,
                                 .k = zeros,
                                 .v = zeros,
                                 .index_q = {c->index_q, 0, c->index_dim},
                                 .raw_key = {d->raw_key, c->index_dim, 0}};
    const qsa_output out = {out_groups ? output : NULL, c->rotary_dim, c->rotary_dim};
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

/* Brings the run to `tokens` tokens, a multiple of the ratio, the last one alone, and compares what it chooses. */
static bool deep_query(deep_run *d, report *r, uint32_t tokens)
{
    const golden_case *c = &d->c;
    uint32_t expected[512], found[512], n_found = 0;
    while (d->tokens + c->ratio < tokens) {
        uint32_t n = tokens - c->ratio - d->tokens, first = d->tokens;
        n = n < DEEP_CHUNK ? n : DEEP_CHUNK;
        if (!deep_feed(d, r, n, NULL, NULL))
            return false;
        deep_pool(d, first, n);
    }
    uint32_t first = d->tokens;
    if (!deep_feed(d, r, c->ratio, found, &n_found))
        return false;
    deep_pool(d, first, c->ratio);
    float table[2 * 512], query[4 * 128];
    deep_table(d, tokens - 1, table);
    naive_index_query(c, c->index_q, table, query);
    for (uint32_t j = 0; j < tokens / c->ratio; j++)
        d->scores[j] = naive_score(c, query, d->pooled + (size_t)j * c->index_dim);
    uint32_t n = naive_best(d->scores, tokens / c->ratio, c->budget / c->ratio, expected);
    return report_numbers(r, "groups at tokens", tokens, expected, n, found, n_found);
}

void lane_deep_selection(report *r, bool quick)
{
    static const uint32_t depths[] = {2052, 2056, 4096, 16384, 32768, 65536, 131072, 196612, 262140, 262144};
    for (int bf16 = 1; bf16 >= (quick ? 1 : 0); bf16--) {
        deep_run d;
        bool good = deep_open(&d, r, bf16);
        for (size_t i = 0; good && i < sizeof depths / sizeof *depths; i++)
            if (!quick || depths[i] <= 32768)
                good = deep_query(&d, r, depths[i]);
        deep_close(&d);
    }
}
