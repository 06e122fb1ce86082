/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/checks.h"
#include "verify/verify.h"

const lane_check lane_checks[] = {
    {"selected groups = a second implementation", lane_selected_ids},
    {"equal scores: the oldest group wins", lane_equal_scores},
    {"rows: budget and tail, ascending, every length", lane_rows},
    {"selection through 262,144 tokens", lane_deep_selection},
    {"dense parity up to the cut at 2,051", lane_dense_parity},
    {"outputs = a second implementation", lane_outputs},
    {"every instruction set = scalar", lane_instruction_sets},
    {"1, 2, 3, 8 parts", lane_parts},
    {"every chunking of a prompt", lane_chunks},
    {"other sequences come and go", lane_neighbours},
    {"pooled keys = rebuilt from raw keys", lane_index},
    {"rewind, inside groups too", lane_rewind},
    {"evict, fork, copy, shift, window, compact", lane_verbs},
    {"snapshots: restored = uninterrupted", lane_snapshots},
    {"numbers that are none are refused", lane_nonfinite},
    {"holes and stored positions are refused", lane_positions},
};
const size_t lane_check_count = sizeof lane_checks / sizeof lane_checks[0];
