/* SPDX-License-Identifier: Apache-2.0 */
/* Which groups a query selects, and the tokens it attends to. */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <stdlib.h>
#include <string.h>

/* ---- selected ids ---- */

static void compare_selection(report *r, const feed_run *run, const oracle_run *oracle, uint32_t first)
{
    int32_t *expected = memory_new(run->groups_size, sizeof *expected);
    for (uint32_t t = first; t < run->c->n; t++) {
        const int n = oracle_groups(oracle, (int)t, expected);
        report_numbers(r, "groups of token", t, (const uint32_t *)expected, (size_t)n,
                       run->groups + (size_t)t * run->groups_size, run->n_groups[t]);
    }
    free(expected);
}

static void select_case(report *r, const golden_case *c, const feed_options *options)
{
    feed_run run;
    oracle_case oracle;
    if (report_call(r, feed_all(&run, c, options), "feed")) {
        if (open_oracle(r, &oracle, c))
            compare_selection(r, &run, &oracle.run, options->first_output);
        oracle_case_close(&oracle);
    }
    feed_close(&run);
}

void check_selected_groups(report *r, bool quick)
{
    static const int64_t anchors[] = {0, 1, 2, 3, 50};
    for (int types = 0; types < TYPES_COUNT; types++)
        for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
            golden_case c = random_case(SHAPE_SMALL, 300, anchors[i], types);
            select_case(r, &c, &(feed_options){.chunk = 64, .parts = 2});
            golden_case_free(&c);
        }
    golden_case c = random_case(SHAPE_RELEASED, quick ? 2060 : 2600, 1003, TYPES_BF16);
    select_case(r, &c, &(feed_options){.chunk = 512, .parts = 2, .first_output = c.n - 40});
    golden_case_free(&c);
}

/* ---- ties ---- */

enum { TIE_EQUAL, TIE_ZERO, TIE_BLOCKS, TIE_KINDS };

/* Raw keys whose rotated part is zero, so that equal raw keys have equal scores at any position: all equal, all
 * opposite to every query (scores of exactly 0), or blocks of ten groups of one of three kinds. */
static void make_ties(golden_case *c, int kind)
{
    const uint32_t dim = c->config.index_dim;
    for (uint32_t t = 0; t < c->n; t++)
        for (uint32_t d = 0; d < dim; d++) {
            uint32_t block = kind == TIE_BLOCKS ? t / c->config.ratio / 10 * 7 % 3 : 0;
            float key = d < c->config.rotary_dim ? 0 : d % 3 == block ? 2.0f : 1.0f;
            c->raw_key[(size_t)t * dim + d] = kind == TIE_ZERO ? -key : key;
        }
    for (size_t i = 0; i < (size_t)c->n * c->config.index_heads * dim; i++)
        c->index_q[i] = i % dim < c->config.rotary_dim ? 0 : (float)(1 + i % 3 + i / dim % 2);
    for (uint32_t d = 0; d < dim; d++)
        c->index_q_norm[d] = c->index_k_norm[d] = 1;
}

/* With all scores equal the oldest groups are selected. */
static void compare_oldest(report *r, const golden_case *c)
{
    feed_run run;
    if (report_call(r, feed_all(&run, c, &(feed_options){.chunk = 50, .parts = 3}), "feed")) {
        uint32_t oldest[64];
        for (uint32_t g = 0; g < run.groups_size; g++)
            oldest[g] = g;
        for (uint32_t t = 0; t < c->n; t++) {
            uint32_t groups = (t + 1) / c->config.ratio, n = groups < run.groups_size ? groups : run.groups_size;
            report_numbers(r, "equal scores, groups of token", t, oldest, n, run.groups + (size_t)t * run.groups_size,
                           run.n_groups[t]);
        }
    }
    feed_close(&run);
}

/* Few distinct scores, so that the budget ends inside a block of equal ones. */
static void compare_best(report *r, uint32_t n, uint32_t k, uint32_t distinct)
{
    float *scores = memory_new(n, sizeof *scores);
    int32_t *expected = memory_new(k, sizeof *expected);
    uint32_t *found = memory_new(k, sizeof *found), n_found = 0;
    for (uint32_t i = 0; i < n; i++)
        scores[i] = (float)((i * UINT64_C(2654435761) >> 7) % distinct) * 0.25f;
    const int n_expected = oracle_select((int)n, scores, (int)k, expected);
    if (report_call(r, qsa_select(scores, n, k, found, &n_found), "qsa_select"))
        report_numbers(r, "groups of scores", n, (const uint32_t *)expected, (size_t)n_expected, found, n_found);
    free(scores);
    free(expected);
    free(found);
}

void check_equal_scores(report *r, bool quick)
{
    for (int types = 0; types < TYPES_COUNT; types += INDEX_BF16)
        for (int kind = 0; kind < TIE_KINDS; kind++) {
            golden_case c = random_case(SHAPE_SMALL, 300, 3, types);
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

/* ---- selected tokens ---- */

/* SPEC section 2: 4 * min(512, g) + n mod 4 tokens, strictly ascending; token n - 1 is last only if it is selected. */
static void compare_row(report *r, const feed_run *run, const oracle_shape *shape, uint32_t t, uint32_t *row,
                        int32_t *expected)
{
    const uint32_t ratio = run->c->config.ratio, n = t + 1, groups = n / ratio;
    const uint32_t chosen = groups < run->groups_size ? groups : run->groups_size;
    const uint32_t *selected = run->groups + (size_t)t * run->groups_size;
    uint32_t size = 0;
    if (!report_call(r, qsa_selected_tokens(selected, run->n_groups[t], ratio, n, row, &size), "qsa_selected_tokens"))
        return;
    const int n_expected = oracle_row_of(shape, (int)t, (const int32_t *)selected, (int)run->n_groups[t], expected);
    report_numbers(r, "row of token", t, (const uint32_t *)expected, (size_t)n_expected, row, size);
    report_same(r, size == chosen * ratio + n % ratio, "row of token %u: %u tokens", t, size);
    bool ascends = true;
    for (uint32_t i = 1; i < size; i++)
        ascends = ascends && row[i - 1] < row[i];
    report_same(r, ascends && size > 0 && row[size - 1] <= t, "row of token %u does not ascend", t);
    qsa_view view;
    if (report_call(r, qsa_run_view(0, t, ratio, run->c->config.budget, 0, &view), "qsa_run_view"))
        report_same(r, view.groups == groups && view.attended == size, "view of token %u", t);
}

void check_rows(report *r, bool quick)
{
    golden_case c = random_case(SHAPE_THIN, quick ? 2100 : 4200, 0, TYPES_F32);
    feed_run run;
    if (report_call(r, feed_all(&run, &c, &(feed_options){.chunk = 700, .parts = 2}), "feed")) {
        uint32_t *row = memory_new(c.config.budget + c.config.ratio, sizeof *row);
        int32_t *expected = memory_new(c.config.budget + c.config.ratio, sizeof *expected);
        const oracle_shape shape = oracle_case_shape(&c);
        for (uint32_t t = 0; t < c.n; t++)
            compare_row(r, &run, &shape, t, row, expected);
        free(row);
        free(expected);
    }
    feed_close(&run);
    golden_case_free(&c);
}
