/* SPDX-License-Identifier: Apache-2.0 */
/* After any verb the results are those of a sequence fed without it. */
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <stdio.h>

/* ---- rewind ---- */

/* Rewinds to `kept` tokens, inside a group or not, and feeds the rest again. */
static void rewind_and_on(report *r, const feed_run *expected, feed_run *run, uint32_t kept)
{
    const golden_case *c = run->c;
    char way[64];
    snprintf(way, sizeof way, "rewound to %u tokens", kept);
    const feed_options on = {.chunk = 37, .parts = 2};
    if (report_call(r, qsa_seq_rewind(run->cache, run->seq, c->anchor + kept), way) &&
        report_call(r, qsa_cache_check(run->cache), way) && report_call(r, feed_tokens(run, kept, c->n, &on), way))
        compare_runs(r, way, expected, run, kept);
}

void check_rewind(report *r, bool quick)
{
    static const uint32_t kept[] = {299, 298, 297, 296, 257, 256, 255, 130, 65, 64, 63, 35, 36, 7, 4, 3, 1, 0};
    for (int types = 0; types < TYPES_COUNT; types += quick ? 3 : 1) {
        golden_case c = random_case(SHAPE_SMALL, 300, 2, types);
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
    const size_t q = (size_t)c->config.q_heads * c->config.head_dim,
                 kv = (size_t)c->config.kv_heads * c->config.head_dim;
    rest.n -= first;
    rest.anchor += first;
    rest.index_q += (size_t)first * c->config.index_heads * c->config.index_dim;
    rest.raw_key += (size_t)first * c->config.index_dim;
    rest.q += first * q;
    rest.k += first * kv;
    rest.v += first * kv;
    return rest;
}

/* After an eviction the run equals one that began at the new anchor, also where groups are cut anew. */
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
            compare_runs(r, way, &expected, &later, 200 - evicted);
    }
    feed_close(&expected);
    feed_close(&run);
}

/* Two branches of one run share pages: each continues as if alone. */
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
            compare_runs(r, way, expected, &run, 200);
        run.seq = other;
        if (report_call(r, feed_tokens(&run, at, c->n, &options), way) &&
            report_call(r, qsa_cache_compact(run.cache), "compact") &&
            report_call(r, qsa_cache_check(run.cache), "compact"))
            compare_runs(r, way, expected, &run, at);
    }
    feed_close(&run);
}

/* Shifts every position and the frame together: the results do not change. */
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
            compare_results(r, "shifted", expected, &run, 0);
    }
    feed_close(&run);
}

/* A window moves with each query's own position, so chunks do not matter. */
static void window_case(report *r, const golden_case *c, uint32_t window)
{
    static const uint32_t chunks[] = {1, 7, 64};
    golden_case windowed = *c;
    windowed.window = window;
    feed_run expected, run;
    if (report_call(r, feed_all(&expected, &windowed, &(feed_options){0}), "window"))
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            if (report_call(r, feed_all(&run, &windowed, &(feed_options){.chunk = chunks[i], .parts = 2}), "window"))
                compare_runs(r, "window", &expected, &run, 0);
            feed_close(&run);
        }
    feed_close(&expected);
}

void check_verbs(report *r, bool quick)
{
    static const uint32_t evicted[] = {4, 64, 100, 1, 3, 130};
    for (int types = 0; types < TYPES_COUNT; types += quick ? 3 : 1) {
        golden_case c = random_case(SHAPE_SMALL, 300, 2, types);
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
