/* SPDX-License-Identifier: Apache-2.0 */
/* Opens golden files, from disk or memory, and returns their records. */
#include "verify/golden_records.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Owns `bytes` from here on. */
static golden_file *parse_owned(char *bytes, size_t size, const char *name, golden_error *error)
{
    golden_file *file = calloc(1, sizeof *file);
    char *name_copy = malloc(strlen(name) + 1);
    if (!file || !name_copy) {
        golden_fail(error, "%s: out of memory", name);
        free(file);
        free(name_copy);
        free(bytes);
        return NULL;
    }
    file->name = strcpy(name_copy, name);
    file->bytes = bytes;
    if (!golden_parse_bytes(file, size, error)) {
        golden_free(file);
        return NULL;
    }
    return file;
}

golden_file *golden_parse(const char *bytes, size_t size_bytes, const char *name, golden_error *error)
{
    char *copy = malloc(size_bytes ? size_bytes : 1);
    if (!copy) {
        golden_fail(error, "%s: out of memory", name);
        return NULL;
    }
    if (size_bytes)
        memcpy(copy, bytes, size_bytes);
    return parse_owned(copy, size_bytes, name, error);
}

/* Reads to the end instead of asking for the size first, so that pipes work too. */
static char *read_all(FILE *stream, const char *path, size_t *out_size, golden_error *error)
{
    char *bytes = NULL;
    size_t size = 0, capacity = 0;
    for (;;) {
        if (size == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *grown = capacity > (size_t)GOLDEN_FILE_MIB_MAX << 20 ? NULL : realloc(bytes, capacity);
            if (!grown) {
                golden_fail(error, "%s: too large", path);
                free(bytes);
                return NULL;
            }
            bytes = grown;
        }
        size_t got = fread(bytes + size, 1, capacity - size, stream);
        size += got;
        if (got == 0)
            break;
    }
    if (ferror(stream)) {
        golden_fail(error, "%s: %s", path, strerror(errno));
        free(bytes);
        return NULL;
    }
    *out_size = size;
    return bytes;
}

golden_file *golden_read(const char *path, golden_error *error)
{
    size_t size = 0;
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        golden_fail(error, "%s: %s", path, strerror(errno));
        return NULL;
    }
    char *bytes = read_all(stream, path, &size, error);
    fclose(stream);
    return bytes ? parse_owned(bytes, size, path, error) : NULL;
}

void golden_free(golden_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->count; i++) {
        for (size_t j = 0; j < file->records[i].count; j++)
            golden_free_entry(&file->records[i].entries[j]);
        free(file->records[i].entries);
    }
    free(file->records);
    free(file->bytes);
    free(file->name);
    free(file);
}

const golden_record *golden_header(const golden_file *file)
{
    return &file->records[0];
}

size_t golden_record_count(const golden_file *file)
{
    return file->count - 1;
}

const golden_record *golden_record_at(const golden_file *file, size_t index)
{
    assert(index + 1 < file->count);
    return &file->records[index + 1];
}

const char *golden_kind(const golden_file *file)
{
    return golden_find(golden_header(file), "kind")->words[0];
}

const char *golden_record_type(const golden_record *record)
{
    return record->type;
}

const char *golden_record_name(const golden_record *record)
{
    return record->name;
}
