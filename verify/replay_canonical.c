/* SPDX-License-Identifier: Apache-2.0 */
/* canonical.txt: hashes of the exact bits of every stage, compared in the order of the computation, so that the first
 * difference identifies the stage at fault. */
#include "console/memory.h"
#include "verify/feed.h"
#include "verify/golden_numbers.h"
#include "verify/plain.h"
#include "verify/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* One record being replayed. */
typedef struct canonical {
    const golden_record *record;
    const golden_case *c;
    plain_run plain;
    const char *way; /* "" for the functions on plain arrays */
    report *r;
} canonical;

static void compare_hash(const canonical *k, const char *stage, uint64_t found)
{
    char key[32];
    golden_error error = {{0}};
    snprintf(key, sizeof key, "hash_%s", stage);
    const uint64_t recorded = golden_hex(k->record, key, 0, &error);
    if (replay_readable(&error, k->r))
        report_same(k->r, recorded == found, "%s%s: %s differ: recorded %016" PRIx64 ", found %016" PRIx64,
                    golden_record_name(k->record), k->way, stage, recorded, found);
}

/* ---- results of the functions on plain arrays ---- */

static uint64_t hash_table(const plain_run *p)
{
    uint64_t hash = GOLDEN_HASH_START;
    for (uint32_t t = 0; t < p->c->n; t++)
        for (uint32_t i = 0; i < p->rotary.pairs; i++) {
            const float *table = p->cos_sin + (size_t)t * 2 * p->rotary.pairs;
            hash = golden_hash_floats(hash, &table[i], 1);
            hash = golden_hash_floats(hash, &table[p->rotary.pairs + i], 1);
        }
    return hash;
}

typedef struct query_hashes {
    uint64_t scores, rows, outputs;
} query_hashes;

/* Adds one query; output may be NULL. */
static qsa_status add_query(const plain_run *p, uint32_t t, float *scores, uint32_t *groups, uint32_t *row,
                            float *output, query_hashes *h)
{
    uint32_t first, end, n_groups, n;
    qsa_status status = plain_candidates(p, t, &first, &end);
    if (status == QSA_OK)
        status = plain_scores(p, t, scores);
    if (status == QSA_OK)
        status = plain_row(p, t, groups, &n_groups, row, &n);
    if (status != QSA_OK)
        return status;
    h->scores = golden_hash_floats(h->scores, scores, end - first);
    for (uint32_t i = 0; i < n; i++)
        h->rows = golden_hash_u32(h->rows, row[i]);
    if (output && (status = plain_output(p, t, row, n, output)) == QSA_OK)
        h->outputs = golden_hash_floats(h->outputs, output, (size_t)p->c->config.q_heads * p->c->config.head_dim);
    return status;
}

/* Scores, selections and, where q, k and v are final, outputs of all recorded queries. */
static void compare_queries(const canonical *k)
{
    const golden_case *c = k->c;
    const bool attends = c->has_attention && c->final_qkv;
    query_hashes h = {GOLDEN_HASH_START, GOLDEN_HASH_START, GOLDEN_HASH_START};
    float *scores = memory_new(c->n / c->config.ratio, sizeof *scores);
    uint32_t *groups = memory_new(c->config.budget / c->config.ratio, sizeof *groups);
    uint32_t *row = memory_new(c->config.budget + c->config.ratio, sizeof *row);
    float *output = attends ? memory_new((size_t)c->config.q_heads * c->config.head_dim, sizeof *output) : NULL;
    qsa_status status = QSA_OK;
    for (size_t i = 0; status == QSA_OK && i < c->queries; i++)
        status = add_query(&k->plain, c->query[i], scores, groups, row, output, &h);
    if (report_call(k->r, status, golden_record_name(k->record))) {
        compare_hash(k, "scores", h.scores);
        compare_hash(k, "rows", h.rows);
        if (attends)
            compare_hash(k, "outputs", h.outputs);
    }
    free(scores);
    free(groups);
    free(row);
    free(output);
}

static void compare_plain(canonical *k)
{
    const golden_case *c = k->c;
    const plain_run *p = &k->plain;
    if (report_call(k->r, plain_open(&k->plain, c), golden_record_name(k->record))) {
        compare_hash(k, "cos_sin", hash_table(p));
        compare_hash(k, "index_q",
                     golden_hash_floats(GOLDEN_HASH_START, p->index_q,
                                        (size_t)c->n * c->config.index_heads * c->config.index_dim));
        compare_hash(
            k, "pooled",
            golden_hash_floats(GOLDEN_HASH_START, p->pooled, (size_t)(c->n / c->config.ratio) * c->config.index_dim));
        compare_queries(k);
    }
}

static void compare_main_q(const canonical *k)
{
    const golden_case *c = k->c;
    const plain_run *p = &k->plain;
    const uint32_t pairs = p->rotary.pairs;
    const size_t size = (size_t)c->config.q_heads * c->config.head_dim;
    uint64_t hash = GOLDEN_HASH_START;
    float *q = memory_new(size, sizeof *q);
    for (size_t i = 0; i < c->queries; i++) {
        const uint32_t t = c->query[i];
        const float *table = p->cos_sin + (size_t)t * 2 * pairs;
        if (!report_call(k->r,
                         qsa_norm_rotate(c->q + t * size, c->config.q_heads, c->config.head_dim, c->q_norm,
                                         c->config.eps, pairs, table, table + pairs, QSA_PROFILE_F32, q),
                         "norm and rotate"))
            break;
        hash = golden_hash_floats(hash, q, size);
    }
    compare_hash(k, "main_q", hash);
    free(q);
}

/* ---- results of the cache ---- */

static void compare_stored(const canonical *k, const feed_run *run, const char *stage, qsa_tensor tensor, uint64_t rows,
                           size_t width)
{
    const golden_case *c = k->c;
    const qsa_span span = {c->anchor,
                           c->anchor + (int64_t)(tensor == QSA_TENSOR_POOLED ? rows * c->config.ratio : rows)};
    float *values = memory_new(rows * width, sizeof *values);
    if (report_call(k->r, qsa_seq_read(run->cache, run->seq, 0, tensor, span, values), stage))
        compare_hash(k, stage, golden_hash_floats(GOLDEN_HASH_START, values, rows * width));
    free(values);
}

static void compare_fed_queries(const canonical *k, const feed_run *run)
{
    const golden_case *c = k->c;
    query_hashes h = {GOLDEN_HASH_START, GOLDEN_HASH_START, GOLDEN_HASH_START};
    uint32_t *row = memory_new(c->config.budget + c->config.ratio, sizeof *row), n;
    for (size_t i = 0; i < c->queries; i++) {
        const uint32_t t = c->query[i];
        const uint32_t *groups = run->groups + (size_t)t * run->groups_size;
        if (!report_call(k->r, qsa_selected_tokens(groups, run->n_groups[t], c->config.ratio, (uint64_t)t + 1, row, &n),
                         "row"))
            break;
        for (uint32_t j = 0; j < n; j++)
            h.rows = golden_hash_u32(h.rows, row[j]);
        h.outputs = golden_hash_floats(h.outputs, run->output + (size_t)t * run->output_size, run->output_size);
    }
    compare_hash(k, "rows", h.rows);
    if (c->has_attention && !c->final_qkv)
        compare_hash(k, "outputs", h.outputs);
    free(row);
}

/* Feeds the case with one set of options. A window drops old tokens, so stored data is compared without one. */
static void compare_way(canonical *k, const char *way, const feed_options *options)
{
    const golden_case *c = k->c;
    feed_run run;
    k->way = way;
    if (report_call(k->r, feed_all(&run, c, options), golden_record_name(k->record))) {
        if (options->no_window || c->window == 0) {
            const size_t kv = (size_t)c->config.kv_heads * c->config.head_dim;
            compare_stored(k, &run, "pooled", QSA_TENSOR_POOLED, c->n / c->config.ratio, c->config.index_dim);
            if (c->has_attention && !c->final_qkv) {
                compare_stored(k, &run, "k_stored", QSA_TENSOR_K, c->n, kv);
                compare_stored(k, &run, "v_stored", QSA_TENSOR_V, c->n, kv);
            }
        }
        if (!options->no_window)
            compare_fed_queries(k, &run);
    }
    feed_close(&run);
}

static void compare_fed(canonical *k)
{
    const golden_case *c = k->c;
    const uint32_t first = c->queries ? c->query[0] : c->n;
    if (c->window != 0)
        compare_way(k, ", without its window", &(feed_options){.first_output = c->n, .no_window = true});
    compare_way(k, ", from a cache", &(feed_options){.parts = 2, .first_output = first});
    if (c->n > 1000)
        return; /* the released shape: once takes long enough */
    compare_way(k, ", in chunks of 1", &(feed_options){.chunk = 1, .parts = 3});
    compare_way(k, ", in chunks of 64", &(feed_options){.chunk = 64, .parts = 8});
}

/* ---- records ---- */

static void path_record(const golden_record *record, report *r)
{
    golden_case c;
    golden_error error = {{0}};
    golden_case_from_path(record, &c, &error);
    if (!replay_readable(&error, r))
        return;
    canonical k = {.record = record, .c = &c, .way = "", .r = r};
    compare_plain(&k);
    compare_main_q(&k);
    compare_fed(&k);
    plain_close(&k.plain);
    golden_case_free(&c);
}

static void stage_record(const golden_folder *folder, const char *file, const golden_record *record, report *r)
{
    golden_case c;
    golden_error error = {{0}};
    const char *name = golden_word(record, "file", 0, &error);
    char *path = name ? replay_sibling(folder, file, name, "") : NULL; /* beside the file with the record */
    golden_file *stage = path ? golden_read(path, &error) : NULL;
    if (stage && golden_case_from_stage(golden_header(stage), &c, &error)) {
        canonical k = {.record = record, .c = &c, .way = "", .r = r};
        compare_plain(&k);
        compare_way(&k, ", from a cache", &(feed_options){.chunk = 64, .parts = 2});
        plain_close(&k.plain);
        golden_case_free(&c);
    }
    replay_readable(&error, r);
    golden_free(stage);
    free(path);
}

void replay_canonical(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    for (size_t i = 0; i < golden_record_count(golden); i++) {
        const golden_record *record = golden_record_at(golden, i);
        if (golden_is(record, "kind", "path"))
            path_record(record, r);
        else if (golden_is(record, "kind", "stage"))
            stage_record(folder, file, record, r);
        else
            report_skip(r, "%s: neither of kind path nor stage", golden_record_name(record));
    }
}
