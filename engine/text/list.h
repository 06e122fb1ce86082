/* SPDX-License-Identifier: Apache-2.0 */
/* Growable arrays of bytes and of token ids. All zeros is an empty list; free(items) releases it. */
#ifndef QSA_ENGINE_TEXT_LIST_H
#define QSA_ENGINE_TEXT_LIST_H

#include <qsa/status.h>

typedef struct byte_list {
    char *items;
    size_t count, capacity;
} byte_list;

typedef struct id_list {
    int32_t *items;
    size_t count, capacity;
} id_list;

/* Makes room for `more` items after count. Errors: QSA_E_MEMORY (the list is unchanged). */
qsa_status byte_list_reserve(byte_list *list, size_t more);
qsa_status id_list_reserve(id_list *list, size_t more);

qsa_status byte_list_append(byte_list *list, const char *bytes, size_t count);
qsa_status id_list_append(id_list *list, int32_t id);

/* For arrays of other types: reallocates items if needed, so that it has room for `needed` items, and updates
 * *capacity. Capacity at least doubles, so appending n items one by one is O(n). NULL: no memory, nothing changed. */
void *list_grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);

#endif
