/* SPDX-License-Identifier: Apache-2.0 */
/* Up to 2,051 tokens sparse attention is dense attention, bit for bit; from 2,052 on some tokens are not selected. */
#include "console/memory.h"
#include "verify/checks.h"
#include "verify/compare.h"
#include "verify/inputs.h"

#include <stdlib.h>

typedef struct dense_run {
    feed_run run;
    oracle_case oracle;
    float *k, *v; /* as stored, read back */
} dense_run;

static bool read_stored(report *r, dense_run *d)
{
    const golden_case *c = d->run.c;
    const size_t count = (size_t)c->n * c->config.kv_heads * c->config.head_dim;
    const qsa_span all = {c->anchor, c->anchor + c->n};
    d->k = memory_new(count, sizeof *d->k);
    d->v = memory_new(count, sizeof *d->v);
    return report_call(r, qsa_seq_read(d->run.cache, d->run.seq, 0, QSA_TENSOR_K, all, d->k), "read k") &&
           report_call(r, qsa_seq_read(d->run.cache, d->run.seq, 0, QSA_TENSOR_V, all, d->v), "read v");
}

/* Compares the query at offset t with dense attention over all it sees, by the library and by the oracle. */
static void compare_dense(report *r, const dense_run *d, uint32_t t, bool with_oracle)
{
    const golden_case *c = d->run.c;
    const size_t size = d->run.output_size;
    const float *found = d->run.output + t * size, *q = d->oracle.run.main_q + t * size;
    float *dense = memory_new(size, sizeof *dense);
    if (report_call(r, qsa_attend_dense(&d->run.config, q, d->k, d->v, t + 1, dense), "qsa_attend_dense"))
        report_bits(r, "output against dense, token", t, dense, found, size);
    if (with_oracle) {
        int32_t *all = memory_new((size_t)t + 1, sizeof *all);
        for (uint32_t i = 0; i <= t; i++)
            all[i] = (int32_t)i;
        oracle_attend(&d->oracle.run, (int)t, all, (int)t + 1, dense);
        report_bits(r, "output against the naive implementation's dense, token", t, dense, found, size);
        free(all);
    }
    free(dense);
    report_same(r, d->run.n_groups[t] == (t + 1) / c->config.ratio, "token %u drops a group below the cut", t);
}

/* Past the limit a query attends to its budget and its tail, never to more. */
static void compare_beyond(report *r, const feed_run *run, uint32_t t)
{
    report_same(r, run->n_groups[t] == run->groups_size, "token %u attends to %u groups", t, run->n_groups[t]);
}

static void parity_case(report *r, input_shape shape, int types, uint32_t first, uint32_t n, bool with_oracle)
{
    golden_case c = random_case(shape, n, 5, types);
    const uint32_t cut = c.config.budget + c.config.ratio - 1; /* the most tokens with dense attention */
    dense_run d = {0};
    if (report_call(r, feed_all(&d.run, &c, &(feed_options){.chunk = 512, .parts = 2, .first_output = first}),
                    "feed")) {
        bool good = open_oracle(r, &d.oracle, &c) && read_stored(r, &d);
        for (uint32_t t = first; good && t < n; t++)
            if (t < cut)
                compare_dense(r, &d, t, with_oracle);
            else
                compare_beyond(r, &d.run, t);
        oracle_case_close(&d.oracle);
    }
    free(d.k);
    free(d.v);
    feed_close(&d.run);
    golden_case_free(&c);
}

void check_dense_parity(report *r, bool quick)
{
    parity_case(r, SHAPE_SMALL, TYPES_F32, 0, 60, true);
    parity_case(r, SHAPE_SMALL, TYPES_BF16, 0, 60, true);
    parity_case(r, SHAPE_THIN, TYPES_F32, quick ? 2030 : 0, 2070, false);
    parity_case(r, SHAPE_THIN, TYPES_BF16, 2040, 2070, true);
    if (!quick)
        parity_case(r, SHAPE_RELEASED, TYPES_BF16, 2040, 2060, true);
}
