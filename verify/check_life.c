/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sequence: after any verb the results are those of a sequence that never saw it; after any refusal
 * nothing has changed. */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t digest_of(report *r, const feed_run *run)
{
    uint64_t digest = 0;
    report_call(r, qsa_seq_digest(run->cache, run->seq, &digest), "digest");
    return digest;
}

/* ---- rewind ---- */

/* Back to `kept` tokens, inside a group or not, and on again. */
static void rewind_and_on(report *r, const feed_run *expected, feed_run *run, uint32_t kept)
{
    const golden_case *c = run->c;
    char way[64];
    snprintf(way, sizeof way, "rewound to %u tokens", kept);
    const feed_options on = {.chunk = 37, .parts = 2};
    if (report_call(r, qsa_seq_rewind(run->cache, run->seq, c->anchor + kept), way) &&
        report_call(r, qsa_cache_check(run->cache), way) && report_call(r, feed_tokens(run, kept, c->n, &on), way))
        lane_same_runs(r, way, expected, run, kept);
}

void lane_rewind(report *r, bool quick)
{
    static const uint32_t kept[] = {299, 298, 297, 296, 257, 256, 255, 130, 65, 64, 63, 35, 36, 7, 4, 3, 1, 0};
    for (int types = 0; types < LANE_TYPES; types += quick ? 3 : 1) {
        golden_case c = lane_case(&lane_small, 300, 2, lane_kv_bf16(types), lane_index_bf16(types));
        feed_run expected, run;
        const feed_options plain = {0};
        bool good = report_call(r, feed_all(&expected, &c, &plain), "feed");
        good = report_call(r, feed_all(&run, &c, &plain), "feed") && good;
        for (size_t i = 0; good && i < sizeof kept / sizeof *kept; i++)
            rewind_and_on(r, &expected, &run, kept[i]);
        feed_close(&expected);
        feed_close(&run);
        golden_case_free(&c);
    }
}

/* ---- the other verbs ---- */

/* The rest of a case from token `first` on, as a case of its own; shares the arrays. */
static golden_case rest_of(const golden_case *c, uint32_t first)
{
    golden_case rest = *c;
    const size_t q = (size_t)c->q_heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
    rest.n -= first;
    rest.anchor += first;
    rest.index_q += (size_t)first * c->index_heads * c->index_dim;
    rest.raw_key += (size_t)first * c->index_dim;
    rest.q += first * q;
    rest.k += first * kv;
    rest.v += first * kv;
    return rest;
}

/* After an eviction the run is one that began at the new anchor, also where groups are cut anew. */
static void evict_case(report *r, const golden_case *c, uint32_t evicted)
{
    const golden_case rest = rest_of(c, evicted);
    feed_run expected, run;
    const feed_options plain = {0};
    char way[64];
    snprintf(way, sizeof way, "%u tokens evicted", evicted);
    bool good = report_call(r, feed_all(&expected, &rest, &plain), way);
    if (report_call(r, feed_open(&run, c, &plain), way) && report_call(r, feed_tokens(&run, 0, 200, &plain), way) &&
        report_call(r, qsa_seq_evict(run.cache, run.seq, c->anchor + evicted), way) &&
        report_call(r, qsa_seq_verify_index(run.cache, run.seq), way)) {
        feed_run later = run; /* counts tokens from the new anchor */
        later.c = &rest;
        if (good && report_call(r, feed_tokens(&later, 200 - evicted, rest.n, &plain), way))
            lane_same_runs(r, way, &expected, &later, 200 - evicted);
    }
    feed_close(&expected);
    feed_close(&run);
}

/* Two branches of one run, which share pages: both go on as if alone. */
static void fork_case(report *r, const feed_run *expected, bool copies)
{
    const golden_case *c = expected->c;
    const uint32_t at = copies ? 200 : 150;
    const char *way = copies ? "a copy" : "a fork inside a group";
    const feed_options options = {.chunk = 41, .sequences = 2};
    feed_run run;
    if (report_call(r, feed_open(&run, c, &options), way) && report_call(r, feed_tokens(&run, 0, 200, &options), way)) {
        qsa_seq original = run.seq, other;
        qsa_status status = copies ? qsa_seq_copy(run.cache, original, &other)
                                   : qsa_seq_fork(run.cache, original, c->anchor + at, &other);
        if (report_call(r, status, way) && report_call(r, feed_tokens(&run, 200, c->n, &options), way))
            lane_same_runs(r, way, expected, &run, 200);
        run.seq = other;
        if (report_call(r, feed_tokens(&run, at, c->n, &options), way) &&
            report_call(r, qsa_cache_compact(run.cache), "compact") &&
            report_call(r, qsa_cache_check(run.cache), "compact"))
            lane_same_runs(r, way, expected, &run, at);
    }
    feed_close(&run);
}

/* Every position and the frame move together: the results are those of the run that stayed. */
static void shift_case(report *r, const feed_run *expected, int64_t delta)
{
    golden_case moved = *expected->c;
    moved.anchor += delta;
    feed_run run;
    const feed_options plain = {0};
    if (report_call(r, feed_open(&run, expected->c, &plain), "shift") &&
        report_call(r, feed_tokens(&run, 0, 123, &plain), "shift") &&
        report_call(r, qsa_seq_shift(run.cache, run.seq, delta), "shift")) {
        run.c = &moved;
        if (report_call(r, feed_tokens(&run, 123, moved.n, &plain), "shift"))
            lane_same_results(r, "shifted", expected, &run, 0);
    }
    feed_close(&run);
}

/* A window moves by each query's own position, so that chunks cannot matter. */
static void window_case(report *r, const golden_case *c, uint32_t window)
{
    static const uint32_t chunks[] = {1, 7, 64};
    golden_case windowed = *c;
    windowed.window = window;
    feed_run expected, run;
    if (report_call(r, feed_all(&expected, &windowed, &(feed_options){0}), "window"))
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            if (report_call(r, feed_all(&run, &windowed, &(feed_options){.chunk = chunks[i], .parts = 2}), "window"))
                lane_same_runs(r, "window", &expected, &run, 0);
            feed_close(&run);
        }
    feed_close(&expected);
}

void lane_verbs(report *r, bool quick)
{
    static const uint32_t evicted[] = {4, 64, 100, 1, 3, 130};
    for (int types = 0; types < LANE_TYPES; types += quick ? 3 : 1) {
        golden_case c = lane_case(&lane_small, 300, 2, lane_kv_bf16(types), lane_index_bf16(types));
        feed_run expected;
        if (report_call(r, feed_all(&expected, &c, &(feed_options){0}), "feed")) {
            fork_case(r, &expected, false);
            fork_case(r, &expected, true);
            shift_case(r, &expected, 1000);
            shift_case(r, &expected, -2);
        }
        feed_close(&expected);
        for (size_t i = 0; i < sizeof evicted / sizeof *evicted; i++)
            evict_case(r, &c, evicted[i]);
        window_case(r, &c, 64);
        window_case(r, &c, 63);
        golden_case_free(&c);
    }
}

/* ---- refused numbers ---- */

typedef struct bad_value {
    const char *tensor; /* as error details name it */
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
    const size_t q = (size_t)c->q_heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
    const uint32_t tokens[] = {from, from + 6, c->n - 1};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            const size_t t = tokens[i];
            const bad_value bad[] = {{"q", c->q + t * q + q - 1, values[k]},
                                     {"k", c->k + t * kv + 1, values[k]},
                                     {"v", c->v + t * kv + kv - 1, values[k]},
                                     {"index_q", c->index_q + t * c->index_heads * c->index_dim + 5, values[k]},
                                     {"raw_key", c->raw_key + t * c->index_dim + c->index_dim - 1, values[k]}};
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
                refuse_value(r, run, &bad[b], from);
        }
}

void lane_nonfinite(report *r, bool quick)
{
    (void)quick;
    golden_case c = lane_case(&lane_small, 80, 4, true, true);
    feed_run expected, run;
    const feed_options plain = {0};
    if (report_call(r, feed_all(&expected, &c, &plain), "feed") &&
        report_call(r, feed_open(&run, &c, &plain), "open")) {
        if (report_call(r, feed_tokens(&run, 0, 50, &plain), "feed")) {
            refuse_values(r, &run, &c, 50);
            if (report_call(r, feed_tokens(&run, 50, c.n, &plain), "feed after refusals"))
                lane_same_runs(r, "after refusals", &expected, &run, 0);
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

void lane_positions(report *r, bool quick)
{
    (void)quick;
    golden_case c = lane_case(&lane_small, 300, 100, true, true);
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
