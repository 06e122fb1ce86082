/* SPDX-License-Identifier: Apache-2.0 */
/* Stage and ties files: the reference's results, within the tolerances of the golden README. Selections are compared
 * exactly, twice: from the functions on plain arrays and from a cache. */
#include "console/memory.h"
#include "verify/feed.h"
#include "verify/plain.h"
#include "verify/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A file being replayed. */
typedef struct stage {
    const golden_record *header;
    golden_case c;
    plain_run plain;
    feed_run fed;
    golden_error error;
    report *r;
} stage;

static bool readable(stage *s)
{
    return replay_readable(&s->error, s->r);
}

static bool is_bf16(const golden_case *c)
{
    return c->config.profile == QSA_PROFILE_BF16;
}

/* ---- selections ---- */

static void compare_rows(stage *s)
{
    const golden_case *c = &s->c;
    golden_ragged selected = golden_find_ragged(s->header, "selected", c->queries, &s->error);
    if (!readable(s))
        return;
    uint32_t *groups = memory_new(c->config.budget / c->config.ratio, sizeof *groups), n_groups;
    uint32_t *row = memory_new(c->config.budget + c->config.ratio, sizeof *row), n;
    for (size_t i = 0; i < c->queries; i++) {
        const uint32_t t = c->query[i];
        const uint32_t *expected = (const uint32_t *)selected.values->integers + selected.begin[i];
        const size_t n_expected = (size_t)(selected.begin[i + 1] - selected.begin[i]);
        if (report_call(s->r, plain_row(&s->plain, t, groups, &n_groups, row, &n), "row"))
            report_numbers(s->r, "groups of token", t, expected, n_expected, groups, n_groups);
        report_numbers(s->r, "groups from the cache, token", t, expected, n_expected,
                       s->fed.groups + (size_t)t * s->fed.groups_size, s->fed.n_groups[t]);
    }
    free(groups);
    free(row);
}

static void compare_views(stage *s)
{
    const golden_case *c = &s->c;
    const int32_t *groups = golden_integers(s->header, "query_groups", c->queries, &s->error);
    const int32_t *tail = golden_integers(s->header, "query_tail", c->queries, &s->error);
    if (!readable(s))
        return;
    for (size_t i = 0; i < c->queries; i++) {
        qsa_view view;
        if (report_call(s->r,
                        qsa_run_view(c->anchor, c->anchor + c->query[i], c->config.ratio, c->config.budget, 0, &view),
                        "view"))
            report_same(s->r, view.groups == (uint64_t)groups[i] && view.tail == (uint32_t)tail[i],
                        "token %u: %d groups and a tail of %d recorded", c->query[i], groups[i], tail[i]);
    }
}

/* ---- numbers ---- */

/* f32: within 4e-6. bf16: equal, or off by one bf16, which is counted. */
static void compare_keys(stage *s, const char *what, uint64_t where, const float *expected, const float *found,
                         size_t n, uint64_t *neighbours)
{
    if (!is_bf16(&s->c)) {
        report_close(s->r, what, where, expected, found, n, 4e-6);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t a, b;
        memcpy(&a, &expected[i], sizeof a);
        memcpy(&b, &found[i], sizeof b);
        int32_t apart = (int32_t)(((uint32_t)a >> 16) - ((uint32_t)b >> 16));
        report_same(s->r, abs(apart) <= 1, "%s %llu, number %zu: expected %g, found %g", what,
                    (unsigned long long)where, i, (double)expected[i], (double)found[i]);
        *neighbours += apart != 0;
    }
}

static void few_neighbours(stage *s, const char *what, uint64_t neighbours, uint64_t values)
{
    report_same(s->r, neighbours * 1000 <= values, "%s: %llu of %llu values are a neighbouring bf16", what,
                (unsigned long long)neighbours, (unsigned long long)values);
}

static void compare_pooled(stage *s)
{
    const golden_tensor *groups = golden_find_tensor(s->header, "pooled_group", &s->error);
    const size_t dim = s->c.config.index_dim, count = groups && groups->integers ? groups->count : 0;
    const float *pooled = golden_floats(s->header, "pooled", count * dim, &s->error);
    uint64_t neighbours = 0;
    if (!readable(s))
        return;
    for (size_t i = 0; i < count; i++) {
        const int32_t g = groups->integers[i];
        if (report_same(s->r, g >= 0 && (uint32_t)g < s->c.n / s->c.config.ratio, "there is no group %d", g))
            compare_keys(s, "pooled key of group", (uint64_t)g, pooled + i * dim, s->plain.pooled + (size_t)g * dim,
                         dim, &neighbours);
    }
    few_neighbours(s, "pooled keys", neighbours, count * dim);
}

/* A tensor of positions as offsets; NULL after reporting an error. Free with free(). */
static uint32_t *offsets(stage *s, const char *name, size_t *out_count)
{
    const golden_tensor *positions = golden_find_tensor(s->header, name, &s->error);
    if (positions && !positions->integers)
        golden_fail(&s->error, "tensor '%s' must be i32", name);
    if (!readable(s) || !positions)
        return NULL;
    uint32_t *out = memory_new(positions->count, sizeof *out);
    for (size_t i = 0; i < positions->count; i++) {
        const int64_t offset = positions->integers[i] - s->c.anchor;
        if (offset < 0 || offset >= s->c.n) {
            report_differ(s->r, "'%s' %d is outside the run", name, positions->integers[i]);
            free(out);
            return NULL;
        }
        out[i] = (uint32_t)offset;
    }
    *out_count = positions->count;
    return out;
}

static void compare_index_q(stage *s)
{
    const size_t size = (size_t)s->c.config.index_heads * s->c.config.index_dim;
    size_t count = 0;
    uint64_t neighbours = 0;
    uint32_t *token = offsets(s, "index_q_position", &count);
    const float *index_q = token ? golden_floats(s->header, "index_q", count * size, &s->error) : NULL;
    if (token && readable(s)) {
        for (size_t i = 0; i < count; i++)
            compare_keys(s, "index query of token", token[i], index_q + i * size, s->plain.index_q + token[i] * size,
                         size, &neighbours);
        few_neighbours(s, "index queries", neighbours, count * size);
    }
    free(token);
}

/* Relative to the file's largest score; in bf16 one value in 200 may be off by 1e-3. */
static void compare_scores(stage *s)
{
    size_t count = 0;
    uint32_t *token = offsets(s, "score_position", &count);
    golden_ragged recorded = token ? golden_find_ragged(s->header, "score", count, &s->error) : (golden_ragged){0};
    double largest = 0;
    uint64_t outliers = 0;
    if (!token || !readable(s)) {
        free(token);
        return;
    }
    float *found = memory_new(s->c.n / s->c.config.ratio, sizeof *found);
    for (size_t i = 0; i < recorded.values->count; i++)
        largest = fmax(largest, recorded.values->floats[i]);
    for (size_t i = 0; i < count; i++) {
        const float *expected = recorded.values->floats + recorded.begin[i];
        const size_t n = (size_t)(recorded.begin[i + 1] - recorded.begin[i]);
        if (!report_same(s->r, n == (token[i] + 1) / s->c.config.ratio, "token %u: %zu scores recorded", token[i], n) ||
            !report_call(s->r, plain_scores(&s->plain, token[i], found), "scores"))
            continue;
        report_close(s->r, "scores of token", token[i], expected, found, n, (is_bf16(&s->c) ? 1e-3 : 4e-6) * largest);
        for (size_t j = 0; j < n; j++)
            outliers += fabs((double)expected[j] - (double)found[j]) > 4e-6 * largest;
    }
    report_same(s->r, outliers * 200 <= recorded.values->count, "%llu scores are off by more than 4e-6",
                (unsigned long long)outliers);
    free(found);
    free(token);
}

static void compare_output(stage *s, uint32_t t, const float *exact, const float *reference, size_t dims)
{
    const golden_case *c = &s->c;
    uint32_t *groups = memory_new(c->config.budget / c->config.ratio, sizeof *groups), n_groups, n;
    uint32_t *row = memory_new(c->config.budget + c->config.ratio, sizeof *row);
    float *found = memory_new((size_t)c->config.q_heads * c->config.head_dim, sizeof *found);
    if (report_call(s->r, plain_row(&s->plain, t, groups, &n_groups, row, &n), "row") &&
        report_call(s->r, plain_output(&s->plain, t, row, n, found), "output"))
        for (size_t head = 0; head < c->config.q_heads; head++) {
            const float *of_head = found + head * c->config.head_dim;
            report_close(s->r, "output (exact) of token", t, exact + head * dims, of_head, dims, 1e-5);
            report_close(s->r, "output (reference) of token", t, reference + head * dims, of_head, dims,
                         is_bf16(c) ? 4e-2 : 2e-5);
        }
    free(groups);
    free(row);
    free(found);
}

static void compare_outputs(stage *s)
{
    size_t count = 0;
    uint32_t *token = offsets(s, "output_position", &count);
    const size_t dims = (size_t)golden_integer_within(s->header, "output_dims", 0, 1, s->c.config.head_dim, &s->error);
    const size_t size = s->c.config.q_heads * dims;
    const float *exact = token ? golden_floats(s->header, "output_exact", count * size, &s->error) : NULL;
    const float *reference = token ? golden_floats(s->header, "output_reference", count * size, &s->error) : NULL;
    if (token && readable(s))
        for (size_t i = 0; i < count; i++)
            compare_output(s, token[i], exact + i * size, reference + i * size, dims);
    free(token);
}

/* ---- a file ---- */

static void compare_all(stage *s)
{
    compare_rows(s);
    if (!s->c.has_attention)
        return; /* a ties file has nothing else */
    compare_views(s);
    replay_frequencies(s->header, &s->plain.rotary, s->r);
    compare_pooled(s);
    compare_index_q(s);
    compare_scores(s);
    compare_outputs(s);
}

void replay_stage(const golden_folder *folder, const char *file, const golden_file *golden, report *r)
{
    (void)folder, (void)file;
    stage s = {.header = golden_header(golden), .r = r};
    golden_case_from_stage(s.header, &s.c, &s.error);
    if (!readable(&s))
        return;
    if (report_call(r, plain_open(&s.plain, &s.c), "plain arrays") &&
        report_call(r, feed_all(&s.fed, &s.c, &(feed_options){.chunk = 101, .parts = 2}), "cache") &&
        report_call(r, qsa_seq_verify_index(s.fed.cache, s.fed.seq), "pooled keys"))
        compare_all(&s);
    plain_close(&s.plain);
    feed_close(&s.fed);
    golden_case_free(&s.c);
}
