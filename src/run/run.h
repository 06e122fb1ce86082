/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on positions; stores no data. */
#ifndef QSA_RUN_RUN_H
#define QSA_RUN_RUN_H

#include <qsa/config.h>
#include <qsa/run.h>

/* anchor(p) of SPEC section 2, "Window": the sequence's own anchor moved by whole groups. window 0: none. */
int64_t qsa_run_window_anchor(int64_t anchor, int64_t position, uint32_t ratio, uint64_t window);

/* The append rule: an entry begins at the frontier. QSA_E_STORED if it begins below, QSA_E_HOLE beyond; QSA_E_LIMIT. */
qsa_status qsa_run_check_append(int64_t expected, int64_t position, uint32_t tokens, size_t entry);
qsa_status qsa_run_check_range(int64_t position, uint32_t tokens, size_t entry);

/* triple - frame; QSA_E_LIMIT if a component is beyond 2^24. */
qsa_status qsa_run_relative(qsa_triple triple, int64_t frame, size_t entry, uint32_t token, qsa_triple *out);

#endif
