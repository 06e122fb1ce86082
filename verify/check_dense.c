/* SPDX-License-Identifier: Apache-2.0 */
/* Up to 2,051 tokens the sparse row is the dense one, bit for bit; from 2,052 on something is dropped. */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/inputs.h"
#include "verify/naive.h"

#include <stdlib.h>

typedef struct dense_run {
    feed_run run;
    naive_run naive;
    float *k, *v; /* as stored, read back */
} dense_run;

static bool read_stored(report *r, dense_run *d)
{
    const golden_case *c = d->run.c;
    const size_t count = (size_t)c->n * c->kv_heads * c->head_dim;
    const qsa_span all = {c->anchor, c->anchor + c->n};
    d->k = memory_new(count, sizeof *d->k);
    d->v = memory_new(count, sizeof *d->v);
    return report_call(r, qsa_seq_read(d->run.cache, d->run.seq, 0, QSA_TENSOR_K, all, d->k), "read k") &&
           report_call(r, qsa_seq_read(d->run.cache, d->run.seq, 0, QSA_TENSOR_V, all, d->v), "read v");
}

/* The query at offset t, against dense attention over all it sees: the library's, and the naive one. */
static void compare_dense(report *r, const dense_run *d, uint32_t t, bool with_naive)
{
    const golden_case *c = d->run.c;
    const size_t size = d->run.output_size;
    const float *found = d->run.output + t * size, *q = d->naive.q + t * size;
    float *dense = memory_new(size, sizeof *dense);
    if (report_call(r, qsa_attend_dense(&d->run.config, q, d->k, d->v, t + 1, dense), "qsa_attend_dense"))
        report_bits(r, "output against dense, token", t, dense, found, size);
    if (with_naive) {
        uint32_t *row = memory_new((size_t)t + 1, sizeof *row);
        for (uint32_t i = 0; i <= t; i++)
            row[i] = i;
        naive_attend(&d->naive, t, row, t + 1, dense);
        report_bits(r, "output against naive dense, token", t, dense, found, size);
        free(row);
    }
    free(dense);
    report_same(r, d->run.n_groups[t] == (t + 1) / c->ratio, "token %u drops a group below the cut", t);
}

/* From the cut on a query attends to its budget and its tail, never to more. */
static void compare_beyond(report *r, const feed_run *run, uint32_t t)
{
    report_same(r, run->n_groups[t] == run->groups_size, "token %u attends to %u groups", t, run->n_groups[t]);
}

static void parity_case(report *r, const lane_shape *shape, bool bf16, uint32_t first, uint32_t n, bool with_naive)
{
    golden_case c = lane_case(shape, n, 5, bf16, bf16);
    const uint32_t cut = c.budget + c.ratio - 1; /* tokens of the longest dense row */
    dense_run d = {0};
    if (report_call(r, feed_all(&d.run, &c, &(feed_options){.chunk = 512, .parts = 2, .first_output = first}),
                    "feed")) {
        naive_open(&d.naive, &c);
        bool good = read_stored(r, &d);
        for (uint32_t t = first; good && t < n; t++)
            if (t < cut)
                compare_dense(r, &d, t, with_naive);
            else
                compare_beyond(r, &d.run, t);
        naive_close(&d.naive);
    }
    free(d.k);
    free(d.v);
    feed_close(&d.run);
    golden_case_free(&c);
}

void lane_dense_parity(report *r, bool quick)
{
    parity_case(r, &lane_small, false, 0, 60, true);
    parity_case(r, &lane_small, true, 0, 60, true);
    parity_case(r, &lane_thin, false, quick ? 2030 : 0, 2070, false);
    parity_case(r, &lane_thin, true, 2040, 2070, true);
    if (!quick)
        parity_case(r, &lane_released, true, 2040, 2060, true);
}
