/* SPDX-License-Identifier: Apache-2.0 */
#include "text/list.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_CAPACITY = 16 };

void *list_grow(void *items, size_t *capacity, size_t needed, size_t item_bytes)
{
    assert(item_bytes > 0 && (items != NULL || *capacity == 0));
    if (items && needed <= *capacity)
        return items;
    size_t wanted = *capacity <= SIZE_MAX / 2 ? *capacity * 2 : SIZE_MAX;
    if (wanted < needed)
        wanted = needed;
    if (wanted < SMALLEST_CAPACITY)
        wanted = SMALLEST_CAPACITY;
    if (wanted > SIZE_MAX / item_bytes)
        return NULL;
    void *moved = realloc(items, wanted * item_bytes);
    if (moved)
        *capacity = wanted;
    return moved;
}

static qsa_status no_memory(void)
{
    return engine_fail(QSA_E_MEMORY, "no memory for text");
}

qsa_status byte_list_reserve(byte_list *list, size_t more)
{
    if (more > SIZE_MAX - list->count)
        return no_memory();
    char *items = list_grow(list->items, &list->capacity, list->count + more, sizeof *items);
    if (!items)
        return no_memory();
    list->items = items;
    return QSA_OK;
}

qsa_status id_list_reserve(id_list *list, size_t more)
{
    if (more > SIZE_MAX - list->count)
        return no_memory();
    int32_t *items = list_grow(list->items, &list->capacity, list->count + more, sizeof *items);
    if (!items)
        return no_memory();
    list->items = items;
    return QSA_OK;
}

qsa_status byte_list_append(byte_list *list, const char *bytes, size_t count)
{
    assert(bytes != NULL || count == 0);
    ENGINE_TRY(byte_list_reserve(list, count));
    if (count > 0)
        memcpy(list->items + list->count, bytes, count);
    list->count += count;
    return QSA_OK;
}

qsa_status id_list_append(id_list *list, int32_t id)
{
    ENGINE_TRY(id_list_reserve(list, 1));
    list->items[list->count++] = id;
    return QSA_OK;
}
