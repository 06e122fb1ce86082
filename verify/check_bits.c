/* SPDX-License-Identifier: Apache-2.0 */
/* Results do not depend on how they are computed: oracle, instruction sets, parts, chunks, neighbours, keys
 * pooled again. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Feeds the case with other options and compares with `expected`. */
static void compare_way(report *r, const char *way, const feed_run *expected, const feed_options *options)
{
    feed_run found;
    if (report_call(r, feed_all(&found, expected->c, options), way))
        compare_runs(r, way, expected, &found, options->first_output);
    feed_close(&found);
}

/* ---- outputs against the oracle ---- */

static void compare_outputs(report *r, const feed_run *run, uint32_t first)
{
    oracle_case oracle;
    float *output = memory_new(run->output_size, sizeof *output);
    const bool is_open = open_oracle(r, &oracle, run->c);
    for (uint32_t t = first; is_open && t < run->c->n; t++) {
        oracle_output(&oracle.run, (int)t, output);
        report_bits(r, "output of token", t, output, run->output + (size_t)t * run->output_size, run->output_size);
    }
    free(output);
    oracle_case_close(&oracle);
}

static void output_case(report *r, const golden_case *c, uint32_t first)
{
    feed_run run;
    if (report_call(r, feed_all(&run, c, &(feed_options){.chunk = 512, .parts = 2, .first_output = first}), "feed"))
        compare_outputs(r, &run, first);
    feed_close(&run);
}

void check_outputs(report *r, bool quick)
{
    for (int types = 0; types < TYPES_COUNT; types++) {
        golden_case c = random_case(SHAPE_SMALL, 300, 2, types);
        output_case(r, &c, 0);
        golden_case_free(&c);
    }
    golden_case c = random_case(SHAPE_RELEASED, quick ? 300 : 2100, 0, TYPES_BF16);
    output_case(r, &c, c.n - 10);
    golden_case_free(&c);
}

/* ---- instruction sets ---- */

static void set_isa(const char *isa)
{
    if (isa)
        setenv("QSA_ISA", isa, 1);
    else
        unsetenv("QSA_ISA");
}

/* Runs the case with one instruction set; skipped if the machine or build lacks it. */
static void compare_isa(report *r, const char *isa, const feed_run *expected, const feed_options *options)
{
    feed_run found;
    set_isa(isa);
    qsa_status status = feed_all(&found, expected->c, options);
    if (status != QSA_E_UNSUPPORTED && report_call(r, status, isa))
        compare_runs(r, isa, expected, &found, options->first_output);
    feed_close(&found);
}

static void isa_case(report *r, const golden_case *c, const feed_options *options)
{
    static const char *const names[] = {"avx2", "avx512", "neon", "sve"};
    feed_run scalar;
    set_isa("scalar");
    if (report_call(r, feed_all(&scalar, c, options), "scalar")) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            compare_isa(r, names[i], &scalar, options);
        set_isa(NULL);
        compare_way(r, "the kernels of this processor", &scalar, options);
    }
    feed_close(&scalar);
}

void check_instruction_sets(report *r, bool quick)
{
    const char *wanted = getenv("QSA_ISA");
    char *saved = wanted ? memory_string(wanted) : NULL;
    for (int types = 0; types < TYPES_COUNT; types++) {
        golden_case c = random_case(SHAPE_SMALL, 300, 1, types);
        isa_case(r, &c, &(feed_options){.chunk = 100});
        golden_case_free(&c);
    }
    for (int types = 0; types < TYPES_COUNT; types += TYPES_COUNT - 1) {
        golden_case c = random_case(SHAPE_RELEASED, 2110, 0, types);
        isa_case(r, &c, &(feed_options){.first_output = c.n - (quick ? 4 : 20)});
        golden_case_free(&c);
    }
    set_isa(saved);
    free(saved);
}

/* ---- parts and chunks ---- */

/* Feeds a case in one step and one part, then with every entry of the lists; 0 ends a list. */
static void ways_case(report *r, const golden_case *c, const uint32_t *chunks, const uint32_t *parts)
{
    feed_run expected;
    char way[64];
    if (report_call(r, feed_all(&expected, c, &(feed_options){0}), "feed"))
        for (size_t i = 0; chunks[i]; i++)
            for (size_t k = 0; parts[k]; k++) {
                snprintf(way, sizeof way, "chunks of %u, %u parts", chunks[i], parts[k]);
                compare_way(r, way, &expected, &(feed_options){.chunk = chunks[i], .parts = parts[k]});
            }
    feed_close(&expected);
}

static void all_types(report *r, const uint32_t *chunks, const uint32_t *parts)
{
    for (int types = 0; types < TYPES_COUNT; types++) {
        golden_case c = random_case(SHAPE_SMALL, 300, 3, types);
        ways_case(r, &c, chunks, parts);
        golden_case_free(&c);
    }
}

void check_parts(report *r, bool quick)
{
    static const uint32_t chunks[] = {300, 1, 5, 0}, parts[] = {1, 2, 3, 8, 0};
    (void)quick;
    all_types(r, chunks, parts);
}

void check_chunks(report *r, bool quick)
{
    static const uint32_t some[] = {1, 7, 64, 0}, two[] = {2, 0};
    uint32_t every[300] = {0};
    if (quick) {
        all_types(r, some, two);
        return;
    }
    for (uint32_t i = 0; i < 299; i++)
        every[i] = i + 1;
    golden_case c = random_case(SHAPE_SMALL, 300, 3, TYPES_BF16);
    ways_case(r, &c, every, two);
    golden_case_free(&c);
    all_types(r, some, two);
}

/* ---- neighbours ---- */

/* Two sequences in every step, and a third that is opened and closed between them, so that their pages are
 * scattered. */
static qsa_status feed_among_others(feed_run *run, feed_run *other)
{
    qsa_seq second, passing = {0};
    qsa_status status = qsa_seq_open(run->cache, &second);
    for (uint32_t first = 0; status == QSA_OK && first < run->c->n; first += 30) {
        const feed_piece both[] = {{other, second, first, 30}, {run, run->seq, first, 30}};
        status = qsa_seq_open(run->cache, &passing);
        const feed_piece guest = {other, passing, 0, 70};
        if (status == QSA_OK)
            status = feed_step(run->cache, &guest, 1, 1, true);
        if (status == QSA_OK)
            status = feed_step(run->cache, both, 2, 3, true);
        if (status == QSA_OK)
            status = qsa_seq_close(run->cache, passing);
    }
    return status == QSA_OK ? qsa_cache_check(run->cache) : status;
}

static void neighbour_case(report *r, const golden_case *c, const golden_case *neighbour)
{
    feed_run expected, crowded = {0}, other = {0};
    const feed_options plain = {0};
    if (report_call(r, feed_all(&expected, c, &plain), "feed") &&
        report_call(r, feed_open(&other, neighbour, &plain), "open")) {
        if (report_call(r, feed_open(&crowded, c, &(feed_options){.sequences = 3}), "open") &&
            report_call(r, feed_among_others(&crowded, &other), "feed among others"))
            compare_runs(r, "among other sequences", &expected, &crowded, 0);
    }
    feed_close(&expected);
    feed_close(&crowded);
    feed_close(&other);
}

void check_neighbours(report *r, bool quick)
{
    (void)quick;
    for (int types = 0; types < TYPES_COUNT; types++) {
        golden_case c = random_case(SHAPE_SMALL, 300, 3, types);
        golden_case neighbour = random_case(SHAPE_SMALL, 300, 17, types);
        neighbour_case(r, &c, &neighbour);
        golden_case_free(&c);
        golden_case_free(&neighbour);
    }
}

/* ---- pooled keys ---- */

/* Compares keys pooled step by step with keys pooled again from all raw keys, by the library and by the oracle. */
static void pooled_case(report *r, const golden_case *c, uint32_t chunk)
{
    feed_run run;
    const uint32_t dim = c->config.index_dim, ratio = c->config.ratio, groups = c->n / ratio;
    float *pooled = memory_new((size_t)groups * dim, sizeof *pooled);
    const qsa_span whole = {c->anchor, c->anchor + (int64_t)groups * ratio};
    oracle_case oracle;
    if (report_call(r, feed_all(&run, c, &(feed_options){.chunk = chunk, .parts = 2}), "feed") &&
        report_call(r, qsa_seq_verify_index(run.cache, run.seq), "keys rebuilt from raw keys") &&
        report_call(r, qsa_seq_read(run.cache, run.seq, 0, QSA_TENSOR_POOLED, whole, pooled), "read")) {
        if (open_oracle(r, &oracle, c))
            for (uint32_t j = 0; j < groups; j++)
                report_bits(r, "pooled key of group", j, oracle.run.pooled + (size_t)j * dim, pooled + (size_t)j * dim,
                            dim);
        oracle_case_close(&oracle);
    }
    free(pooled);
    feed_close(&run);
}

void check_pooled_keys(report *r, bool quick)
{
    (void)quick;
    static const uint32_t chunks[] = {300, 1, 3, 7};
    for (int types = 0; types < TYPES_COUNT; types++)
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            golden_case c = random_case(SHAPE_SMALL, 300, (int64_t)i, types);
            pooled_case(r, &c, chunks[i]);
            golden_case_free(&c);
        }
}
