/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the strict lane. Each compares, on this machine, what the library gives with what it must give. */
#ifndef QSA_VERIFY_CHECKS_H
#define QSA_VERIFY_CHECKS_H

#include "console/report.h"
#include "verify/feed.h"

typedef void lane_function(report *r, bool quick);

/* lane_select.c: membership and rows */
lane_function lane_selected_ids, lane_equal_scores, lane_rows, lane_deep_selection;
/* lane_dense.c */
lane_function lane_dense_parity;
/* lane_bits.c: the same bits whatever the way */
lane_function lane_outputs, lane_instruction_sets, lane_parts, lane_chunks, lane_neighbours, lane_index;
/* lane_life.c: verbs and refusals */
lane_function lane_rewind, lane_verbs, lane_nonfinite, lane_positions;
/* lane_snapshot.c */
lane_function lane_snapshots;

/* Both runs gave the same groups and outputs from token `first` on; `way` names the second. lane_same_runs: and they
 * hold the same state. */
void lane_same_results(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first);
void lane_same_runs(report *r, const char *way, const feed_run *expected, const feed_run *found, uint32_t first);

/* The four combinations of K/V type and index profile: bit 0 and bit 1. */
enum { LANE_TYPES = 4 };
static inline bool lane_kv_bf16(int types)
{
    return types & 1;
}
static inline bool lane_index_bf16(int types)
{
    return types & 2;
}

#endif
