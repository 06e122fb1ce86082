/* SPDX-License-Identifier: Apache-2.0 */
/* Growing lists of bytes and of token ids. A list of zeros is an empty one. */
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

/* Makes room for `more` items after count; QSA_E_MEMORY leaves the list as it was. */
qsa_status byte_list_reserve(byte_list *list, size_t more);
qsa_status id_list_reserve(id_list *list, size_t more);

qsa_status byte_list_append(byte_list *list, const char *bytes, size_t count);
qsa_status id_list_append(id_list *list, int32_t id);

/* For lists of another item type: returns items with room for `needed` items, moved if need be, and updates *capacity
 * (which at least doubles, so that appending n items costs O(n)). NULL: no memory, nothing changed. */
void *list_grow(void *items, size_t *capacity, size_t needed, size_t item_bytes);

#endif
