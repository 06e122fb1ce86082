/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode normalisation form C, in time and memory linear in the text.
 *
 * utf8proc does decomposition, combining classes and composition. Canonical ordering is done here: utf8proc's own is
 * quadratic in the length of a run of combining marks, which untrusted text may exploit. */
#ifndef QSA_ENGINE_TEXT_NFC_H
#define QSA_ENGINE_TEXT_NFC_H

#include "text/list.h"

/* Scratch memory, reused from call to call. All zeros: nothing allocated. */
typedef struct nfc_work {
    int32_t *points, *sorted; /* code points: of the text; of a run of combining marks while it is sorted */
    size_t points_count, points_capacity, sorted_capacity;
} nfc_work;

void nfc_work_release(nfc_work *work);

/* Appends the NFC of count bytes of valid UTF-8 to out. Errors: QSA_E_MEMORY, QSA_E_ARGUMENT (invalid UTF-8),
 * QSA_E_UNSUPPORTED (utf8proc fails). */
qsa_status nfc_append(nfc_work *work, const char *bytes, size_t count, byte_list *out);

#endif
