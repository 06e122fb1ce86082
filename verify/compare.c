/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/compare.h"

#include <stdio.h>

void compare_results(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first)
{
    char what[96];
    for (uint32_t t = first; t < expected->c->n; t++) {
        const size_t groups = (size_t)t * expected->groups_size, output = (size_t)t * expected->output_size;
        snprintf(what, sizeof what, "%s, groups of token", way);
        report_numbers(r, what, t, expected->groups + groups, expected->n_groups[t], found->groups + groups,
                       found->n_groups[t]);
        snprintf(what, sizeof what, "%s, output of token", way);
        report_bits(r, what, t, expected->output + output, found->output + output, expected->output_size);
    }
}

uint64_t digest_of(report *r, const feed_run *run)
{
    uint64_t digest = 0;
    report_call(r, qsa_seq_digest(run->cache, run->seq, &digest), "digest");
    return digest;
}

void compare_runs(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first)
{
    compare_results(r, way, expected, found, first);
    const uint64_t differences = r->differences, a = digest_of(r, expected), b = digest_of(r, found);
    if (r->differences == differences) /* both runs have a digest */
        report_same(r, a == b, "%s: the stored state differs", way);
}

bool open_oracle(report *r, oracle_case *out, const golden_case *c)
{
    oracle_refusal refusal;
    if (oracle_case_open(out, c, &refusal))
        return true;
    report_differ(r, "the naive implementation refuses %s of token %d", refusal.tensor, refusal.token);
    return false;
}
