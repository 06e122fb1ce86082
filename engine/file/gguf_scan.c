/* SPDX-License-Identifier: Apache-2.0 */
#include "file/gguf_scan.h"

#include "base/error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* The read position. Invariant: at <= size. */
typedef struct scan {
    const char *file;
    const uint8_t *data;
    size_t size, at;
    uint64_t array_strings; /* elements of string arrays so far */
    gguf_counts counts;     /* so far; text and strings are also the places of the next ones in the head */
    gguf_head *head;        /* NULL: only counts */
} scan;

/* A string inside the file, not terminated. */
typedef struct text {
    const char *bytes;
    size_t length;
} text;

enum { SHOWN_NAME_LENGTH = 64 }; /* bytes of a name that a message shows */

static int shown_length(text name)
{
    return name.length < SHOWN_NAME_LENGTH ? (int)name.length : SHOWN_NAME_LENGTH;
}

static qsa_status take(scan *s, uint64_t bytes, const char *what)
{
    assert(s->at <= s->size);
    if (bytes > s->size - s->at)
        return engine_fail(QSA_E_FORMAT, "%s: truncated: %s at byte %zu takes %" PRIu64 " bytes, the file has %zu left",
                           s->file, what, s->at, bytes, s->size - s->at);
    s->at += (size_t)bytes;
    if (s->at > GGUF_FILE_MAX_HEADER_BYTES)
        return engine_fail(QSA_E_LIMIT, "%s: keys and tensor infos take more than %d bytes", s->file,
                           GGUF_FILE_MAX_HEADER_BYTES);
    return QSA_OK;
}

static qsa_status take_u32(scan *s, const char *what, uint32_t *out_value)
{
    ENGINE_TRY(take(s, sizeof *out_value, what));
    memcpy(out_value, s->data + s->at - sizeof *out_value, sizeof *out_value);
    return QSA_OK;
}

static qsa_status take_u64(scan *s, const char *what, uint64_t *out_value)
{
    ENGINE_TRY(take(s, sizeof *out_value, what));
    memcpy(out_value, s->data + s->at - sizeof *out_value, sizeof *out_value);
    return QSA_OK;
}

static qsa_status take_text(scan *s, const char *what, text *out_text)
{
    uint64_t length = 0;
    ENGINE_TRY(take_u64(s, what, &length));
    ENGINE_TRY(take(s, length, what));
    *out_text = (text){(const char *)s->data + s->at - length, (size_t)length};
    return QSA_OK;
}

/* Counts a text and, if there is a head, copies it there: terminated. */
static const char *keep(scan *s, text t)
{
    char *copy = NULL;
    if (s->head != NULL) {
        copy = s->head->text + s->counts.text_bytes;
        if (t.length > 0)
            memcpy(copy, t.bytes, t.length);
        copy[t.length] = '\0';
    }
    s->counts.text_bytes += t.length + 1;
    return copy;
}

static bool has_nul(text t)
{
    return t.length > 0 && memchr(t.bytes, '\0', t.length) != NULL;
}

/* The name of a key or tensor: not empty, without NUL bytes. */
static qsa_status take_name(scan *s, const char *what, uint64_t i, text *out_name)
{
    ENGINE_TRY(take_text(s, what, out_name));
    if (out_name->length == 0)
        return engine_fail(QSA_E_FORMAT, "%s: the name of %s %" PRIu64 " is empty", s->file, what, i);
    if (has_nul(*out_name))
        return engine_fail(QSA_E_FORMAT, "%s: the name of %s %" PRIu64 " holds a NUL byte after '%.*s'", s->file, what,
                           i, SHOWN_NAME_LENGTH, out_name->bytes);
    return QSA_OK;
}

/* Bytes of a value of a fixed-size type; 0 for strings, arrays and unknown types. */
static size_t value_bytes(uint32_t type)
{
    switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
        return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
        return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
        return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
        return 8;
    default:
        return 0;
    }
}

static qsa_status scan_string(scan *s, text key)
{
    text value = {0};
    ENGINE_TRY(take_text(s, "a string", &value));
    if (has_nul(value))
        return engine_fail(QSA_E_FORMAT, "%s: key '%.*s' has a string with a NUL byte", s->file, shown_length(key),
                           key.bytes);
    const char *copy = keep(s, value);
    if (s->head != NULL)
        s->head->strings[s->counts.strings] = copy;
    s->counts.strings++;
    return QSA_OK;
}

static qsa_status scan_string_array(scan *s, text key, uint64_t n)
{
    /* Each string has at least an 8-byte length, so this bounds n before the sum below. */
    if (n > (s->size - s->at) / sizeof(uint64_t))
        return engine_fail(QSA_E_FORMAT,
                           "%s: key '%.*s' claims %" PRIu64 " strings, more than the rest of the file can hold",
                           s->file, shown_length(key), key.bytes, n);
    assert(s->array_strings <= GGUF_FILE_MAX_STRINGS);
    s->array_strings += n;
    if (s->array_strings > GGUF_FILE_MAX_STRINGS)
        return engine_fail(QSA_E_LIMIT, "%s: more than %d strings in arrays (at key '%.*s')", s->file,
                           GGUF_FILE_MAX_STRINGS, shown_length(key), key.bytes);
    for (uint64_t i = 0; i < n; i++)
        ENGINE_TRY(scan_string(s, key));
    return QSA_OK;
}

/* Values of a fixed size: they stay where they are. */
static qsa_status scan_numbers(scan *s, text name, gguf_key *key, size_t value_bytes)
{
    if (key->n > (s->size - s->at) / value_bytes)
        return engine_fail(QSA_E_FORMAT, "%s: key '%.*s' claims %zu values, more than the rest of the file can hold",
                           s->file, shown_length(name), name.bytes, key->n);
    key->values = s->data + s->at;
    return take(s, key->n * value_bytes, key->is_array ? "an array" : "a value");
}

static qsa_status scan_values(scan *s, text name, gguf_key *key)
{
    if (key->type == GGUF_TYPE_STRING) {
        key->strings = s->head == NULL ? NULL : s->head->strings + s->counts.strings;
        return key->is_array ? scan_string_array(s, name, key->n) : scan_string(s, name);
    }
    const size_t bytes = value_bytes((uint32_t)key->type);
    if (bytes == 0)
        return engine_fail(QSA_E_FORMAT, "%s: key '%.*s' %s type %d, which is not supported", s->file,
                           shown_length(name), name.bytes, key->is_array ? "is an array of" : "has", (int)key->type);
    return scan_numbers(s, name, key, bytes);
}

static qsa_status scan_key(scan *s, uint64_t i)
{
    text name = {0};
    uint32_t type = 0;
    uint64_t n = 1;
    ENGINE_TRY(take_name(s, "key", i, &name));
    gguf_key key = {.name = keep(s, name)};
    ENGINE_TRY(take_u32(s, "the type of a key", &type));
    key.is_array = type == GGUF_TYPE_ARRAY;
    if (key.is_array) {
        ENGINE_TRY(take_u32(s, "the type of an array", &type));
        ENGINE_TRY(take_u64(s, "the length of an array", &n));
    }
    key.type = (enum gguf_type)type;
    key.n = (size_t)n;
    ENGINE_TRY(scan_values(s, name, &key));
    if (s->head != NULL)
        s->head->keys[s->head->key_count++] = key;
    return QSA_OK;
}

static qsa_status scan_dims(scan *s, text name, gguf_tensor_info *tensor)
{
    uint32_t dims = 0;
    ENGINE_TRY(take_u32(s, "a number of dimensions", &dims));
    if (dims < 1 || dims > GGML_MAX_DIMS)
        return engine_fail(QSA_E_FORMAT, "%s: tensor '%.*s' has %" PRIu32 " dimensions, expected 1 to %d", s->file,
                           shown_length(name), name.bytes, dims, GGML_MAX_DIMS);
    for (uint32_t d = 0; d < GGML_MAX_DIMS; d++)
        tensor->dims[d] = 1;
    for (uint32_t d = 0; d < dims; d++) {
        uint64_t n = 0;
        ENGINE_TRY(take_u64(s, "a dimension", &n));
        if (n == 0 || n > INT64_MAX)
            return engine_fail(QSA_E_FORMAT, "%s: tensor '%.*s' has dimension %" PRIu32 " of %" PRIu64 " elements",
                               s->file, shown_length(name), name.bytes, d, n);
        tensor->dims[d] = (int64_t)n;
    }
    return QSA_OK;
}

/* gguf_shard_tensor checks types, sizes and offsets. */
static qsa_status scan_tensor(scan *s, uint64_t i)
{
    text name = {0};
    ENGINE_TRY(take_name(s, "tensor", i, &name));
    if (name.length >= GGML_MAX_NAME)
        return engine_fail(QSA_E_FORMAT, "%s: the name of tensor %" PRIu64 " is too long: %zu bytes, at most %d",
                           s->file, i, name.length, GGML_MAX_NAME - 1);
    gguf_tensor_info tensor = {.name = keep(s, name)};
    ENGINE_TRY(scan_dims(s, name, &tensor));
    ENGINE_TRY(take_u32(s, "the type of a tensor", &tensor.type));
    ENGINE_TRY(take_u64(s, "the offset of a tensor", &tensor.offset));
    if (s->head != NULL)
        s->head->tensors[s->head->tensor_count++] = tensor;
    return QSA_OK;
}

static qsa_status scan_magic(scan *s)
{
    assert(s->at == 0);
    size_t length = strlen(GGUF_MAGIC);
    if (s->size < length || memcmp(s->data, GGUF_MAGIC, length) != 0)
        return engine_fail(QSA_E_FORMAT, "%s: not a GGUF file", s->file);
    return take(s, length, "the magic");
}

static qsa_status scan_start(scan *s, uint64_t *out_tensors, uint64_t *out_keys)
{
    uint32_t version = 0;
    ENGINE_TRY(scan_magic(s));
    ENGINE_TRY(take_u32(s, "the version", &version));
    if (version < 2 || version > GGUF_VERSION)
        return engine_fail(QSA_E_UNSUPPORTED, "%s: GGUF version %" PRIu32 "; little-endian versions 2 and %d are read",
                           s->file, version, GGUF_VERSION);
    ENGINE_TRY(take_u64(s, "the number of tensors", out_tensors));
    ENGINE_TRY(take_u64(s, "the number of keys", out_keys));
    if (*out_tensors > GGUF_FILE_MAX_TENSORS)
        return engine_fail(QSA_E_LIMIT, "%s: claims %" PRIu64 " tensors, at most %d are read", s->file, *out_tensors,
                           GGUF_FILE_MAX_TENSORS);
    if (*out_keys > GGUF_FILE_MAX_KEYS)
        return engine_fail(QSA_E_LIMIT, "%s: claims %" PRIu64 " keys, at most %d are read", s->file, *out_keys,
                           GGUF_FILE_MAX_KEYS);
    return QSA_OK;
}

qsa_status gguf_scan(const char *name, const void *data, size_t size_bytes, gguf_head *head, gguf_counts *out_counts)
{
    assert(name != NULL && (data != NULL || size_bytes == 0) && out_counts != NULL);
    scan s = {.file = name, .data = data, .size = size_bytes, .head = head};
    uint64_t tensors = 0, keys = 0;
    ENGINE_TRY(scan_start(&s, &tensors, &keys));
    for (uint64_t i = 0; i < keys; i++)
        ENGINE_TRY(scan_key(&s, i));
    for (uint64_t i = 0; i < tensors; i++)
        ENGINE_TRY(scan_tensor(&s, i));
    s.counts.keys = (size_t)keys;
    s.counts.tensors = (size_t)tensors;
    s.counts.header_bytes = s.at;
    *out_counts = s.counts;
    return QSA_OK;
}
