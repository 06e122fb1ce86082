/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/plain.h"

#include "console/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static qsa_triple triple_of(const golden_case *c, uint32_t t)
{
    int64_t axis[3];
    for (int i = 0; i < 3; i++)
        axis[i] = (c->triples ? c->triples[3 * (size_t)t + i] : c->anchor + t) - c->frame;
    return (qsa_triple){(int32_t)axis[0], (int32_t)axis[1], (int32_t)axis[2]};
}

static qsa_status fill_tokens(plain_run *run)
{
    const golden_case *c = run->c;
    const uint32_t pairs = run->rotary.pairs;
    const size_t size = (size_t)c->config.index_heads * c->config.index_dim;
    qsa_status status = QSA_OK;
    for (uint32_t t = 0; status == QSA_OK && t < c->n; t++) {
        float *table = run->cos_sin + (size_t)t * 2 * pairs;
        status = qsa_rotary_cos_sin(&run->rotary, triple_of(c, t), table, table + pairs);
        if (status == QSA_OK)
            status =
                qsa_norm_rotate(c->index_q + t * size, c->config.index_heads, c->config.index_dim, c->index_q_norm,
                                c->config.eps, pairs, table, table + pairs, c->config.profile, run->index_q + t * size);
    }
    return status;
}

static qsa_status fill_groups(plain_run *run)
{
    const golden_case *c = run->c;
    const uint32_t groups = c->n / c->config.ratio;
    qsa_triple *first = memory_new(groups, sizeof *first);
    for (uint32_t g = 0; g < groups; g++)
        first[g] = triple_of(c, g * c->config.ratio);
    qsa_status status =
        qsa_pool_keys(&c->config, &run->rotary, c->raw_key, first, groups, c->index_k_norm, run->pooled);
    free(first);
    return status;
}

qsa_status plain_open(plain_run *run, const golden_case *c)
{
    *run = (plain_run){.c = c};
    run->cos_sin = memory_new((size_t)c->n * c->config.rotary_dim, sizeof(float));
    run->index_q = memory_new((size_t)c->n * c->config.index_heads * c->config.index_dim, sizeof(float));
    run->pooled = memory_new((size_t)(c->n / c->config.ratio) * c->config.index_dim, sizeof(float));
    qsa_status status = qsa_rotary_init(&c->config, &run->rotary);
    if (status == QSA_OK)
        status = fill_tokens(run);
    return status == QSA_OK ? fill_groups(run) : status;
}

void plain_close(plain_run *run)
{
    free(run->cos_sin);
    free(run->index_q);
    free(run->pooled);
    *run = (plain_run){0};
}

qsa_status plain_candidates(const plain_run *run, uint32_t t, uint32_t *out_first, uint32_t *out_end)
{
    const golden_case *c = run->c;
    assert(t < c->n);
    qsa_view view;
    qsa_status status = qsa_run_view(c->anchor, c->anchor + t, c->config.ratio, c->config.budget, c->window, &view);
    if (status == QSA_OK) {
        *out_first = (uint32_t)view.first_group;
        *out_end = (uint32_t)(view.first_group + view.groups);
    }
    return status;
}

qsa_status plain_scores(const plain_run *run, uint32_t t, float *out)
{
    const golden_case *c = run->c;
    uint32_t first, end;
    qsa_status status = plain_candidates(run, t, &first, &end);
    if (status != QSA_OK || first == end)
        return status;
    return qsa_score(run->index_q + (size_t)t * c->config.index_heads * c->config.index_dim, c->config.index_heads,
                     c->config.index_dim, run->pooled + (size_t)first * c->config.index_dim, end - first, out);
}

static qsa_status choose(const plain_run *run, uint32_t t, uint32_t *out_groups, uint32_t *out_n)
{
    const golden_case *c = run->c;
    uint32_t first, end;
    float *scores = memory_new(c->n / c->config.ratio, sizeof *scores);
    *out_n = 0;
    qsa_status status = plain_candidates(run, t, &first, &end);
    if (status == QSA_OK)
        status = plain_scores(run, t, scores);
    if (status == QSA_OK && first < end)
        status = qsa_select(scores, end - first, c->config.budget / c->config.ratio, out_groups, out_n);
    for (uint32_t i = 0; status == QSA_OK && i < *out_n; i++)
        out_groups[i] += first;
    free(scores);
    return status;
}

qsa_status plain_row(const plain_run *run, uint32_t t, uint32_t *out_groups, uint32_t *out_n_groups, uint32_t *out_row,
                     uint32_t *out_n)
{
    qsa_status status = choose(run, t, out_groups, out_n_groups);
    return status == QSA_OK
               ? qsa_selected_tokens(out_groups, *out_n_groups, run->c->config.ratio, (uint64_t)t + 1, out_row, out_n)
               : status;
}

qsa_status plain_output(const plain_run *run, uint32_t t, const uint32_t *row, uint32_t n, float *out)
{
    const golden_case *c = run->c;
    assert(c->has_attention && c->final_qkv);
    return qsa_attend_selected(&c->config, c->q + (size_t)t * c->config.q_heads * c->config.head_dim, c->k, c->v, row,
                               n, out);
}
