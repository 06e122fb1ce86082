/* SPDX-License-Identifier: Apache-2.0 */
/* Joins shards into one file: their count and names, and one list of all tensors. */
#define _POSIX_C_SOURCE 200809L
#include "file/gguf_file.h"

#include "base/error.h"
#include "file/gguf_shard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What a shard says about the split file. */
typedef struct split {
    uint32_t number, count;
    bool has_tensors;
    uint32_t tensors; /* in all shards */
} split;

static const char KEY_NUMBER[] = "split.no", KEY_COUNT[] = "split.count", KEY_TENSORS[] = "split.tensors.count";

enum { MAX_SHARDS = 65535 /* split.count is a u16 */ };

/* A file without these keys is not split. */
static qsa_status read_split(gguf_shard *shard, split *out_split)
{
    const gguf_file alone = {.shards = shard, .shard_count = 1}; /* so that the getters read this shard's keys */
    split s = {.count = 1};
    if (gguf_file_has(&alone, KEY_COUNT))
        ENGINE_TRY(gguf_file_u32(&alone, KEY_COUNT, &s.count));
    if (gguf_file_has(&alone, KEY_NUMBER))
        ENGINE_TRY(gguf_file_u32(&alone, KEY_NUMBER, &s.number));
    s.has_tensors = gguf_file_has(&alone, KEY_TENSORS);
    if (s.has_tensors)
        ENGINE_TRY(gguf_file_u32(&alone, KEY_TENSORS, &s.tensors));
    if (s.count < 1 || s.count > MAX_SHARDS)
        return engine_fail(QSA_E_FORMAT, "%s: %s is %" PRIu32 ", expected 1 to %d", shard->name, KEY_COUNT, s.count,
                           MAX_SHARDS);
    if (s.number >= s.count)
        return engine_fail(QSA_E_FORMAT, "%s: %s is %" PRIu32 ", but %s is %" PRIu32, shard->name, KEY_NUMBER, s.number,
                           KEY_COUNT, s.count);
    if (s.count > 1 && !s.has_tensors)
        return engine_fail(QSA_E_FORMAT, "%s: one of %" PRIu32 " shards, but key '%s' is missing", shard->name, s.count,
                           KEY_TENSORS);
    *out_split = s;
    return QSA_OK;
}

/* ---- names of shards: NAME-00001-of-00003.gguf ---- */

enum { SUFFIX_BYTES = 32 };

static void format_suffix(char *suffix, uint32_t number, uint32_t count)
{
    snprintf(suffix, SUFFIX_BYTES, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", number + 1, count);
}

/* The name of shard `number` of the file whose first shard is `first`. The caller frees it. */
static qsa_status shard_name(const char *first, uint32_t number, uint32_t count, char **out_name)
{
    assert(number < count && count <= MAX_SHARDS);
    char own[SUFFIX_BYTES], other[SUFFIX_BYTES];
    format_suffix(own, 0, count);
    format_suffix(other, number, count);
    size_t length = strlen(first), suffix = strlen(own);
    if (length < suffix || strcmp(first + length - suffix, own) != 0)
        return engine_fail(QSA_E_FORMAT, "%s: is the first of %" PRIu32 " shards, so its name must end in %s", first,
                           count, own);
    char *name = strdup(first);
    if (!name)
        return engine_fail(QSA_E_MEMORY, "%s: no memory", first);
    memcpy(name + length - suffix, other, suffix);
    *out_name = name;
    return QSA_OK;
}

/* ---- the other shards ---- */

static qsa_status check_shard(gguf_shard *shard, uint32_t number, const split *whole)
{
    split own = {0};
    ENGINE_TRY(read_split(shard, &own));
    if (own.count != whole->count)
        return engine_fail(QSA_E_FORMAT, "%s: says it is one of %" PRIu32 " shards, the first says %" PRIu32,
                           shard->name, own.count, whole->count);
    if (own.number != number)
        return engine_fail(QSA_E_FORMAT, "%s: says it is shard %" PRIu32 ", its name says %" PRIu32, shard->name,
                           own.number + 1, number + 1);
    if (own.tensors != whole->tensors)
        return engine_fail(QSA_E_FORMAT, "%s: says there are %" PRIu32 " tensors, the first shard says %" PRIu32,
                           shard->name, own.tensors, whole->tensors);
    return QSA_OK;
}

static qsa_status open_other_shard(gguf_file *file, uint32_t number, const split *whole)
{
    assert(number == file->shard_count && number < whole->count);
    char *name = NULL;
    ENGINE_TRY(shard_name(file->shards[0].name, number, whole->count, &name));
    gguf_shard *shard = &file->shards[number];
    const qsa_status status = gguf_shard_open(shard, name);
    free(name);
    if (status != QSA_OK)
        return engine_fail(status, "shard %" PRIu32 " of %" PRIu32 ": %s", number + 1, whole->count,
                           engine_error_detail());
    file->shard_count = number + 1;
    return check_shard(shard, number, whole);
}

static qsa_status open_other_shards(gguf_file *file, const split *whole)
{
    assert(file->shard_count == 1 && whole->count > 1);
    gguf_shard *shards = realloc(file->shards, whole->count * sizeof *shards);
    if (!shards)
        return engine_fail(QSA_E_MEMORY, "%s: no memory for %" PRIu32 " shards", file->shards[0].name, whole->count);
    file->shards = shards;
    for (uint32_t i = 1; i < whole->count; i++)
        ENGINE_TRY(open_other_shard(file, i, whole));
    return QSA_OK;
}

/* ---- one list of tensors ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const gguf_file_tensor *)a)->name, ((const gguf_file_tensor *)b)->name);
}

static qsa_status collect_shard(gguf_file *file, uint32_t number)
{
    assert(number < file->shard_count);
    const gguf_shard *shard = &file->shards[number];
    size_t n = gguf_shard_tensor_count(shard);
    uint64_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        gguf_file_tensor *tensor = &file->tensors[file->tensor_count];
        ENGINE_TRY(gguf_shard_tensor(shard, i, &offset, tensor));
        tensor->shard = number;
        file->tensor_count++;
    }
    return QSA_OK;
}

static qsa_status check_unique(const gguf_file *file)
{
    for (size_t i = 1; i < file->tensor_count; i++) {
        const gguf_file_tensor *a = &file->tensors[i - 1], *b = &file->tensors[i];
        if (strcmp(a->name, b->name) == 0 && a->shard == b->shard)
            return engine_fail(QSA_E_FORMAT, "%s: duplicate tensor name '%s'", file->shards[a->shard].name, a->name);
        if (strcmp(a->name, b->name) == 0)
            return engine_fail(QSA_E_FORMAT, "%s: tensor '%s' is in shard %" PRIu32 " and in shard %" PRIu32,
                               file->shards[0].name, a->name, a->shard + 1, b->shard + 1);
    }
    return QSA_OK;
}

static qsa_status collect_tensors(gguf_file *file)
{
    size_t n = 0;
    for (uint32_t i = 0; i < file->shard_count; i++)
        n += gguf_shard_tensor_count(&file->shards[i]);
    file->tensors = calloc(n > 0 ? n : 1, sizeof *file->tensors);
    if (!file->tensors)
        return engine_fail(QSA_E_MEMORY, "%s: no memory for %zu tensors", file->shards[0].name, n);
    for (uint32_t i = 0; i < file->shard_count; i++)
        ENGINE_TRY(collect_shard(file, i));
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, compare_names);
    return check_unique(file);
}

/* ---- open and close ---- */

static qsa_status complete(gguf_file *file, bool is_memory)
{
    assert(file->shard_count == 1 && file->tensors == NULL);
    split whole = {0};
    ENGINE_TRY(read_split(&file->shards[0], &whole));
    const char *name = file->shards[0].name;
    if (whole.number != 0)
        return engine_fail(QSA_E_FORMAT, "%s: is shard %" PRIu32 " of %" PRIu32 "; open the first one", name,
                           whole.number + 1, whole.count);
    if (whole.count > 1 && is_memory)
        return engine_fail(QSA_E_FORMAT, "%s: is one of %" PRIu32 " shards; a split file cannot be opened from memory",
                           name, whole.count);
    if (whole.count > 1)
        ENGINE_TRY(open_other_shards(file, &whole));
    ENGINE_TRY(collect_tensors(file));
    if (whole.has_tensors && whole.tensors != file->tensor_count)
        return engine_fail(QSA_E_FORMAT, "%s: %s is %" PRIu32 ", but there are %zu tensors", file->shards[0].name,
                           KEY_TENSORS, whole.tensors, file->tensor_count);
    return QSA_OK;
}

static gguf_file *allocate_file(const char *name)
{
    gguf_file *file = calloc(1, sizeof *file);
    gguf_shard *first = calloc(1, sizeof *first);
    if (!file || !first) {
        free(file);
        free(first);
        engine_fail(QSA_E_MEMORY, "%s: no memory", name);
        return NULL;
    }
    file->shards = first;
    file->shard_count = 1;
    return file;
}

static qsa_status finish_open(gguf_file *file, qsa_status status, bool is_memory, gguf_file **out_file)
{
    if (status == QSA_OK)
        status = complete(file, is_memory);
    if (status != QSA_OK)
        gguf_file_close(file);
    else
        *out_file = file;
    return status;
}

qsa_status gguf_file_open(const char *path, gguf_file **out_file)
{
    gguf_file *file = allocate_file(path);
    if (!file)
        return QSA_E_MEMORY;
    return finish_open(file, gguf_shard_open(&file->shards[0], path), false, out_file);
}

qsa_status gguf_file_open_memory(const char *name, const void *data, size_t size_bytes, gguf_file **out_file)
{
    if ((uintptr_t)data % GGUF_FILE_MIN_ALIGNMENT != 0)
        return engine_fail(QSA_E_ARGUMENT, "%s: the memory is not aligned to %d bytes", name, GGUF_FILE_MIN_ALIGNMENT);
    gguf_file *file = allocate_file(name);
    if (!file)
        return QSA_E_MEMORY;
    return finish_open(file, gguf_shard_open_memory(&file->shards[0], name, data, size_bytes), true, out_file);
}

void gguf_file_close(gguf_file *file)
{
    if (!file)
        return;
    for (uint32_t i = 0; i < file->shard_count; i++)
        gguf_shard_close(&file->shards[i]);
    if (file->loaded)
        munmap(file->loaded, file->loaded_bytes);
    free(file->shards);
    free(file->tensors);
    free(file);
}

/* ---- contents ---- */

uint32_t gguf_file_shards(const gguf_file *file)
{
    return file->shard_count;
}

uint64_t gguf_file_bytes(const gguf_file *file)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < file->shard_count; i++)
        bytes += file->shards[i].bytes;
    return bytes;
}

const char *gguf_file_name(const gguf_file *file)
{
    return file->shards[0].name;
}

const gguf_file_tensor *gguf_file_find(const gguf_file *file, const char *name)
{
    assert(file != NULL && name != NULL);
    gguf_file_tensor wanted = {.name = name};
    return bsearch(&wanted, file->tensors, file->tensor_count, sizeof wanted, compare_names);
}

size_t gguf_file_tensor_count(const gguf_file *file)
{
    return file->tensor_count;
}

const gguf_file_tensor *gguf_file_tensor_at(const gguf_file *file, size_t i)
{
    return i < file->tensor_count ? &file->tensors[i] : NULL;
}

uint64_t gguf_file_tensor_elements(const gguf_file_tensor *tensor)
{
    uint64_t elements = 1;
    for (int d = 0; d < GGML_MAX_DIMS; d++)
        elements *= (uint64_t)tensor->dims[d];
    return elements;
}

/* Row by row: some of ggml's conversions count blocks in an int. */
void gguf_file_dequantise(const gguf_file_tensor *tensor, float *out_values)
{
    assert(tensor->data != NULL && out_values != NULL);
    if (tensor->type == GGML_TYPE_F32) {
        memcpy(out_values, tensor->data, tensor->bytes);
        return;
    }
    ggml_to_float_t to_float = ggml_get_type_traits(tensor->type)->to_float;
    assert(to_float != NULL);
    uint64_t columns = (uint64_t)tensor->dims[0], rows = gguf_file_tensor_elements(tensor) / columns;
    size_t row_bytes = tensor->bytes / rows;
    for (uint64_t r = 0; r < rows; r++)
        to_float((const uint8_t *)tensor->data + r * row_bytes, out_values + r * columns, (int64_t)columns);
}
