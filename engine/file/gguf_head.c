/* SPDX-License-Identifier: Apache-2.0 */
#include "file/gguf_head.h"

#include "base/error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const gguf_key *)a)->name, ((const gguf_key *)b)->name);
}

static qsa_status sort_keys(const char *name, gguf_head *head)
{
    qsort(head->keys, head->key_count, sizeof *head->keys, compare_keys);
    for (size_t i = 1; i < head->key_count; i++)
        if (compare_keys(&head->keys[i - 1], &head->keys[i]) == 0)
            return engine_fail(QSA_E_FORMAT, "%s: duplicate key '%s'", name, head->keys[i].name);
    return QSA_OK;
}

/* Tensor data begins at the next multiple of the alignment. */
static qsa_status align_data(const char *name, size_t header_bytes, gguf_head *head)
{
    uint32_t alignment = GGUF_DEFAULT_ALIGNMENT;
    const gguf_key *key = gguf_head_find(head, GGUF_KEY_GENERAL_ALIGNMENT);
    if (key != NULL && (key->is_array || key->type != GGUF_TYPE_UINT32))
        return engine_fail(QSA_E_FORMAT, "%s: key '%s' must be of type u32 but is %s%s", name, key->name,
                           key->is_array ? "an array of " : "", gguf_type_name(key->type));
    if (key != NULL)
        memcpy(&alignment, key->values, sizeof alignment);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return engine_fail(QSA_E_FORMAT, "%s: alignment %" PRIu32 " is not a power of 2", name, alignment);
    head->alignment = alignment;
    head->data_offset = (header_bytes + alignment - 1) / alignment * alignment;
    return QSA_OK;
}

/* The first walk counts, the second one fills what was allocated for the counts. */
static qsa_status read_all(const char *name, const void *data, size_t size_bytes, gguf_head *head)
{
    gguf_counts counts;
    ENGINE_TRY(gguf_scan(name, data, size_bytes, NULL, &counts));
    head->keys = calloc(counts.keys + 1, sizeof *head->keys);
    head->tensors = calloc(counts.tensors + 1, sizeof *head->tensors);
    head->strings = calloc(counts.strings + 1, sizeof *head->strings);
    head->text = malloc(counts.text_bytes + 1);
    if (!head->keys || !head->tensors || !head->strings || !head->text)
        return engine_fail(QSA_E_MEMORY, "%s: no memory for its %zu keys and %zu tensor infos", name, counts.keys,
                           counts.tensors);
    ENGINE_TRY(gguf_scan(name, data, size_bytes, head, &counts));
    ENGINE_TRY(sort_keys(name, head));
    return align_data(name, counts.header_bytes, head);
}

qsa_status gguf_head_read(const char *name, const void *data, size_t size_bytes, gguf_head *out_head)
{
    gguf_head head = {0};
    const qsa_status status = read_all(name, data, size_bytes, &head);
    if (status == QSA_OK)
        *out_head = head;
    else
        gguf_head_free(&head);
    return status;
}

void gguf_head_free(gguf_head *head)
{
    free(head->keys);
    free(head->tensors);
    free(head->strings);
    free(head->text);
    *head = (gguf_head){0};
}

const gguf_key *gguf_head_find(const gguf_head *head, const char *name)
{
    assert(head != NULL && name != NULL);
    const gguf_key wanted = {.name = name};
    return head->key_count == 0 ? NULL : bsearch(&wanted, head->keys, head->key_count, sizeof wanted, compare_keys);
}
