/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `qsa verify`; suite.c has their table. A check compares the library's results on this machine with the
 * expected ones. quick: fewer and shorter cases. */
#ifndef QSA_VERIFY_CHECKS_H
#define QSA_VERIFY_CHECKS_H

#include "console/report.h"

typedef void check_function(report *r, bool quick);

check_function check_selected_groups, check_equal_scores, check_rows;            /* check_selection.c */
check_function check_deep_selection;                                             /* check_deep.c */
check_function check_dense_parity;                                               /* check_dense.c */
check_function check_outputs, check_instruction_sets, check_parts, check_chunks; /* check_bits.c */
check_function check_neighbours, check_pooled_keys;                              /* check_bits.c */
check_function check_rewind, check_verbs;                                        /* check_verbs.c */
check_function check_snapshots;                                                  /* check_snapshot.c */
check_function check_bad_numbers, check_bad_positions;                           /* check_refusals.c */

#endif
