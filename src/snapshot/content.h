/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QSA_SNAPSHOT_CONTENT_H
#define QSA_SNAPSHOT_CONTENT_H

#include "snapshot/format.h"

/* Pages that the tokens of a sequence take. */
uint32_t qsa_content_pages(const qsa_file_sequence *sequence);
/* Slots that a sequence uses of its i-th page. */
qsa_file_extent qsa_content_used(const qsa_file_sequence *sequence, uint32_t i);
/* Each sequence on its own, and that n_table is their pages. */
qsa_status qsa_content_check_sequences(const qsa_content *content);
/* The extents that sequences and table imply; an error where the table is not canonical. */
qsa_status qsa_content_extents(const qsa_content *content, qsa_file_extent *expected);
/* No sequence refers to an extent twice; so its table is no longer than the pages that are taken. last [n_extents] is
 * working memory. */
qsa_status qsa_content_check_distinct(const qsa_content *content, uint32_t *last);
/* Fills in rows and pooled_rows. */
void qsa_content_count(qsa_content *content);

#endif
