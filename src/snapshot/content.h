/* SPDX-License-Identifier: Apache-2.0 */
/* The sequences, page tables and extents of a snapshot, checked against each other. */
#ifndef QSA_SNAPSHOT_CONTENT_H
#define QSA_SNAPSHOT_CONTENT_H

#include "snapshot/format.h"

/* Pages that the tokens of a sequence take. */
uint32_t qsa_content_pages(const qsa_file_sequence *sequence);
/* Slots that a sequence uses of its i-th page. */
qsa_file_extent qsa_content_used(const qsa_file_sequence *sequence, uint32_t i);
/* Checks each sequence on its own, and that n_table is the sum of their pages. */
qsa_status qsa_content_check_sequences(const qsa_content *content);
/* The extents that sequences and table imply. An error if the table is not canonical. */
qsa_status qsa_content_extents(const qsa_content *content, qsa_file_extent *expected);
/* Checks that no sequence refers to an extent twice; so its table is no longer than the pages taken. last [n_extents]
 * is scratch. */
qsa_status qsa_content_check_distinct(const qsa_content *content, uint32_t *last);
/* Fills in rows and pooled_rows. */
void qsa_content_count(qsa_content *content);

#endif
