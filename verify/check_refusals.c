/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that are not finite and positions out of range are refused, the detail says which, and nothing changes. */
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- refused values ---- */

typedef struct bad_value {
    const char *tensor; /* its name in error details */
    float *number;
    float value;
} bad_value;

static void refuse_value(report *r, feed_run *run, const bad_value *bad, uint32_t from)
{
    const uint64_t before = digest_of(r, run);
    const float good = *bad->number;
    *bad->number = bad->value;
    const feed_piece piece = {run, run->seq, from, run->c->n - from};
    qsa_status status = feed_step(run->cache, &piece, 1, 2, true);
    *bad->number = good;
    report_same(r, status == QSA_E_NONFINITE, "%g in %s gave %s", (double)bad->value, bad->tensor,
                qsa_status_name(status));
    char named[32];
    snprintf(named, sizeof named, ": %s holds", bad->tensor);
    report_same(r, strstr(qsa_error_detail(), named) != NULL, "%g in %s: the detail says '%s'", (double)bad->value,
                bad->tensor, qsa_error_detail());
    report_same(r, digest_of(r, run) == before, "%g in %s changed the state", (double)bad->value, bad->tensor);
    report_call(r, qsa_cache_check(run->cache), "check after a refusal");
}

static void refuse_values(report *r, feed_run *run, golden_case *c, uint32_t from)
{
    static const float values[] = {NAN, -NAN, INFINITY, -INFINITY, 0x1p57f, -0x1p57f};
    const size_t q = (size_t)c->config.q_heads * c->config.head_dim,
                 kv = (size_t)c->config.kv_heads * c->config.head_dim;
    const uint32_t tokens[] = {from, from + 6, c->n - 1};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            const size_t t = tokens[i];
            const bad_value bad[] = {
                {"q", c->q + t * q + q - 1, values[k]},
                {"k", c->k + t * kv + 1, values[k]},
                {"v", c->v + t * kv + kv - 1, values[k]},
                {"index_q", c->index_q + t * c->config.index_heads * c->config.index_dim + 5, values[k]},
                {"raw_key", c->raw_key + t * c->config.index_dim + c->config.index_dim - 1, values[k]}};
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
                refuse_value(r, run, &bad[b], from);
        }
}

void check_bad_numbers(report *r, bool quick)
{
    (void)quick;
    golden_case c = random_case(SHAPE_SMALL, 80, 4, TYPES_BF16);
    feed_run expected, run;
    const feed_options plain = {0};
    if (report_call(r, feed_all(&expected, &c, &plain), "feed") &&
        report_call(r, feed_open(&run, &c, &plain), "open")) {
        if (report_call(r, feed_tokens(&run, 0, 50, &plain), "feed")) {
            refuse_values(r, &run, &c, 50);
            if (report_call(r, feed_tokens(&run, 50, c.n, &plain), "feed after refusals"))
                compare_runs(r, "after refusals", &expected, &run, 0);
        }
        feed_close(&run);
    }
    feed_close(&expected);
    golden_case_free(&c);
}

/* ---- refused positions ---- */

static void refuse_entry(report *r, const feed_run *run, const char *what, qsa_entry entry, qsa_status expected)
{
    const uint64_t before = digest_of(r, run);
    qsa_step *step = NULL;
    qsa_status status = qsa_step_begin(run->cache, &entry, 1, &step);
    report_same(r, status == expected, "%s gave %s, not %s", what, qsa_status_name(status), qsa_status_name(expected));
    if (status == QSA_OK)
        qsa_step_abort(step);
    report_same(r, digest_of(r, run) == before, "%s changed the state", what);
    report_call(r, qsa_cache_check(run->cache), what);
}

static void refuse_positions(report *r, const feed_run *run)
{
    const int64_t frontier = run->c->anchor + run->c->n;
    const qsa_triple far[] = {{QSA_MAX_ROTARY_OFFSET + 1, 0, 0}};
    const struct {
        const char *what;
        qsa_entry entry;
        qsa_status expected;
    } cases[] = {
        {"a hole", {run->seq, frontier + 1, 1, NULL}, QSA_E_HOLE},
        {"a hole far away", {run->seq, frontier + 1000, 3, NULL}, QSA_E_HOLE},
        {"a stored position", {run->seq, frontier - 1, 1, NULL}, QSA_E_STORED},
        {"the anchor again", {run->seq, run->c->anchor, 1, NULL}, QSA_E_STORED},
        {"an empty entry", {run->seq, frontier, 0, NULL}, QSA_E_ARGUMENT},
        {"too many tokens for a step", {run->seq, frontier, run->config.max_step_tokens + 1, NULL}, QSA_E_LIMIT},
        {"a triple beyond 2^24", {run->seq, frontier, 1, far}, QSA_E_LIMIT},
        {"more tokens than there are pages", {run->seq, frontier, 250, NULL}, QSA_E_FULL},
        {"a sequence that is none", {{0, 0}, frontier, 1, NULL}, QSA_E_SEQUENCE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_entry(r, run, cases[i].what, cases[i].entry, cases[i].expected);
}

void check_bad_positions(report *r, bool quick)
{
    (void)quick;
    golden_case c = random_case(SHAPE_SMALL, 300, 100, TYPES_BF16);
    feed_run run;
    if (report_call(r, feed_all(&run, &c, &(feed_options){0}), "feed")) {
        refuse_positions(r, &run);
        qsa_run found;
        const int64_t good[] = {100, 101, 102, 103, 104}, hole[] = {100, 101, 103, 104};
        report_same(r, qsa_run_classify(good, NULL, 5, &found) == QSA_OK && found.tokens == 5, "a run is a run");
        report_same(r, qsa_run_classify(hole, NULL, 4, &found) == QSA_E_HOLE, "a list with a hole is refused");
    }
    feed_close(&run);
    golden_case_free(&c);
}
