/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode normalisation form C, in time and memory linear in the text.
 *
 * utf8proc supplies the decompositions, the combining classes and the composition. The canonical ordering is done here:
 * utf8proc's own takes quadratic time over a long run of combining marks, which hostile text may hold. */
#ifndef QSA_ENGINE_TEXT_NFC_H
#define QSA_ENGINE_TEXT_NFC_H

#include "text/list.h"

/* Working memory, kept from call to call. All zeros: none yet. */
typedef struct nfc_work {
    int32_t *points, *sorted; /* code points; the second for a run of combining marks */
    size_t points_count, points_capacity, sorted_capacity;
} nfc_work;

void nfc_work_release(nfc_work *work);

/* Appends to out the normal form of count bytes of valid UTF-8. */
qsa_status nfc_append(nfc_work *work, const char *bytes, size_t count, byte_list *out);

#endif
