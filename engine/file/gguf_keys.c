/* SPDX-License-Identifier: Apache-2.0 */
#include "file/gguf_keys.h"

#include "base/error.h"
#include "file/gguf_shard.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A key that was found. */
typedef struct entry {
    const char *file;
    const char *key;
    enum gguf_type type; /* of an array: of its elements */
    bool is_array;
    const void *values;   /* [n], of any alignment; NULL: strings */
    const char **strings; /* [n] */
    size_t n;             /* 1 if not an array */
} entry;

static bool find(const gguf_file *file, const char *name, entry *out_entry)
{
    assert(file->shard_count > 0 && name != NULL);
    const gguf_shard *shard = &file->shards[0];
    const gguf_key *key = gguf_head_find(&shard->head, name);
    if (key == NULL)
        return false;
    *out_entry = (entry){shard->name, name, key->type, key->is_array, key->values, key->strings, key->n};
    return true;
}

static qsa_status fail_type(const entry *e, const char *wanted)
{
    return engine_fail(QSA_E_FORMAT, "%s: key '%s' is %s%s, expected %s", e->file, e->key,
                       e->is_array ? "an array of " : "", gguf_type_name(e->type), wanted);
}

static qsa_status find_or_fail(const gguf_file *file, const char *key, entry *out_entry)
{
    if (find(file, key, out_entry))
        return QSA_OK;
    return engine_fail(QSA_E_FORMAT, "%s: key '%s' is missing", file->shards[0].name, key);
}

static qsa_status find_value(const gguf_file *file, const char *key, const char *wanted, entry *out_entry)
{
    ENGINE_TRY(find_or_fail(file, key, out_entry));
    if (out_entry->is_array)
        return fail_type(out_entry, wanted);
    return QSA_OK;
}

static qsa_status find_array(const gguf_file *file, const char *key, const char *wanted, size_t n, entry *out_entry)
{
    ENGINE_TRY(find_or_fail(file, key, out_entry));
    if (!out_entry->is_array)
        return fail_type(out_entry, wanted);
    if (out_entry->n != n)
        return engine_fail(QSA_E_FORMAT, "%s: key '%s' has %zu elements, expected %zu", file->shards[0].name, key,
                           out_entry->n, n);
    return QSA_OK;
}

/* ---- elements ---- */

/* An integer of any GGUF type: its two's complement bits, sign-extended to 64, and its sign. */
typedef struct integer {
    uint64_t bits;
    bool is_negative;
} integer;

static integer signed_integer(int64_t value)
{
    return (integer){.bits = (uint64_t)value, .is_negative = value < 0};
}

/* Element i as TYPE. */
#define ELEMENT(TYPE, e, i) (*(TYPE *)memcpy(&(TYPE){0}, (const char *)(e)->values + (i) * sizeof(TYPE), sizeof(TYPE)))

static bool integer_at(const entry *e, size_t i, integer *out_value)
{
    assert(i < e->n);
    switch (e->type) {
    case GGUF_TYPE_UINT8:
        *out_value = (integer){.bits = ELEMENT(uint8_t, e, i)};
        return true;
    case GGUF_TYPE_UINT16:
        *out_value = (integer){.bits = ELEMENT(uint16_t, e, i)};
        return true;
    case GGUF_TYPE_UINT32:
        *out_value = (integer){.bits = ELEMENT(uint32_t, e, i)};
        return true;
    case GGUF_TYPE_UINT64:
        *out_value = (integer){.bits = ELEMENT(uint64_t, e, i)};
        return true;
    case GGUF_TYPE_INT8:
        *out_value = signed_integer(ELEMENT(int8_t, e, i));
        return true;
    case GGUF_TYPE_INT16:
        *out_value = signed_integer(ELEMENT(int16_t, e, i));
        return true;
    case GGUF_TYPE_INT32:
        *out_value = signed_integer(ELEMENT(int32_t, e, i));
        return true;
    case GGUF_TYPE_INT64:
        *out_value = signed_integer(ELEMENT(int64_t, e, i));
        return true;
    default:
        return false;
    }
}

static qsa_status fail_range(const entry *e, size_t i, integer value, const char *wanted)
{
    if (value.is_negative)
        return engine_fail(QSA_E_FORMAT, "%s: key '%s', element %zu, is %" PRId64 ", expected %s", e->file, e->key, i,
                           (int64_t)value.bits, wanted);
    return engine_fail(QSA_E_FORMAT, "%s: key '%s', element %zu, is %" PRIu64 ", expected %s", e->file, e->key, i,
                       value.bits, wanted);
}

static qsa_status unsigned_at(const entry *e, size_t i, uint64_t max, const char *wanted, uint64_t *out_value)
{
    assert(out_value != NULL);
    integer value = {0};
    if (!integer_at(e, i, &value))
        return fail_type(e, wanted);
    if (value.is_negative || value.bits > max)
        return fail_range(e, i, value, wanted);
    *out_value = value.bits;
    return QSA_OK;
}

static qsa_status u32_at(const entry *e, size_t i, uint32_t *out_value)
{
    uint64_t value = 0;
    ENGINE_TRY(unsigned_at(e, i, UINT32_MAX, "an unsigned integer of 32 bits", &value));
    *out_value = (uint32_t)value;
    return QSA_OK;
}

static qsa_status i32_at(const entry *e, size_t i, int32_t *out_value)
{
    static const char wanted[] = "an integer of 32 bits";
    integer value = {0};
    if (!integer_at(e, i, &value))
        return fail_type(e, wanted);
    bool fits = value.is_negative ? (int64_t)value.bits >= INT32_MIN : value.bits <= INT32_MAX;
    if (!fits)
        return fail_range(e, i, value, wanted);
    *out_value = (int32_t)(int64_t)value.bits;
    return QSA_OK;
}

static qsa_status f32_at(const entry *e, float *out_value)
{
    assert(!e->is_array && out_value != NULL);
    static const char wanted[] = "a finite f32";
    double value;
    if (e->type == GGUF_TYPE_FLOAT32)
        value = ELEMENT(float, e, 0);
    else if (e->type == GGUF_TYPE_FLOAT64)
        value = ELEMENT(double, e, 0);
    else
        return fail_type(e, wanted);
    if (!(fabs(value) <= FLT_MAX))
        return engine_fail(QSA_E_FORMAT, "%s: key '%s' is %g, expected %s", e->file, e->key, value, wanted);
    *out_value = (float)value;
    return QSA_OK;
}

static qsa_status bool_at(const entry *e, size_t i, bool *out_value)
{
    assert(i < e->n);
    if (e->type != GGUF_TYPE_BOOL)
        return fail_type(e, "bool");
    *out_value = ELEMENT(int8_t, e, i) != 0;
    return QSA_OK;
}

/* ---- getters ---- */

bool gguf_file_has(const gguf_file *file, const char *key)
{
    return gguf_head_find(&file->shards[0].head, key) != NULL;
}

bool gguf_file_is_array(const gguf_file *file, const char *key)
{
    entry e = {0};
    return find(file, key, &e) && e.is_array;
}

qsa_status gguf_file_u32(const gguf_file *file, const char *key, uint32_t *out_value)
{
    entry e = {0};
    ENGINE_TRY(find_value(file, key, "an unsigned integer of 32 bits", &e));
    return u32_at(&e, 0, out_value);
}

qsa_status gguf_file_f32(const gguf_file *file, const char *key, float *out_value)
{
    entry e = {0};
    ENGINE_TRY(find_value(file, key, "a finite f32", &e));
    return f32_at(&e, out_value);
}

qsa_status gguf_file_bool(const gguf_file *file, const char *key, bool *out_value)
{
    entry e = {0};
    ENGINE_TRY(find_value(file, key, "bool", &e));
    return bool_at(&e, 0, out_value);
}

qsa_status gguf_file_string(const gguf_file *file, const char *key, const char **out_value)
{
    entry e = {0};
    ENGINE_TRY(find_value(file, key, "a string", &e));
    if (e.type != GGUF_TYPE_STRING)
        return fail_type(&e, "a string");
    assert(!e.is_array);
    *out_value = e.strings[0];
    return QSA_OK;
}

size_t gguf_file_key_count(const gguf_file *file)
{
    size_t n = 0;
    for (uint32_t i = 0; i < file->shard_count; i++)
        n += file->shards[i].head.key_count;
    return n;
}

const char *gguf_file_key_at(const gguf_file *file, size_t i)
{
    for (uint32_t shard = 0; shard < file->shard_count; shard++) {
        const gguf_head *head = &file->shards[shard].head;
        if (i < head->key_count)
            return head->keys[i].name;
        i -= head->key_count;
    }
    return NULL;
}

static bool number_at(const entry *e, size_t i, double *out_value)
{
    integer value;
    if (e->type == GGUF_TYPE_FLOAT32)
        *out_value = (double)ELEMENT(float, e, i);
    else if (e->type == GGUF_TYPE_FLOAT64)
        *out_value = ELEMENT(double, e, i);
    else if (e->type == GGUF_TYPE_BOOL)
        *out_value = ELEMENT(int8_t, e, i) != 0;
    else if (integer_at(e, i, &value))
        *out_value = value.is_negative ? (double)(int64_t)value.bits : (double)value.bits;
    else
        return false;
    return true;
}

qsa_status gguf_file_numbers(const gguf_file *file, const char *key, double *out_values, size_t most, size_t *out_n)
{
    entry e = {0};
    ENGINE_TRY(find_or_fail(file, key, &e));
    if (e.n > most)
        return engine_fail(QSA_E_FORMAT, "%s: key '%s' has %zu elements, expected at most %zu", e.file, key, e.n, most);
    for (size_t i = 0; i < e.n; i++)
        if (!number_at(&e, i, &out_values[i]))
            return fail_type(&e, "numbers");
    *out_n = e.n;
    return QSA_OK;
}

qsa_status gguf_file_length(const gguf_file *file, const char *key, size_t *out_n)
{
    entry e = {0};
    ENGINE_TRY(find_or_fail(file, key, &e));
    if (!e.is_array)
        return fail_type(&e, "an array");
    *out_n = e.n;
    return QSA_OK;
}

qsa_status gguf_file_bools(const gguf_file *file, const char *key, bool *out_values, size_t n)
{
    entry e = {0};
    ENGINE_TRY(find_array(file, key, "an array of bool", n, &e));
    for (size_t i = 0; i < n; i++)
        ENGINE_TRY(bool_at(&e, i, &out_values[i]));
    return QSA_OK;
}

qsa_status gguf_file_i32s(const gguf_file *file, const char *key, int32_t *out_values, size_t n)
{
    entry e = {0};
    ENGINE_TRY(find_array(file, key, "an array of integers", n, &e));
    for (size_t i = 0; i < n; i++)
        ENGINE_TRY(i32_at(&e, i, &out_values[i]));
    return QSA_OK;
}

qsa_status gguf_file_u32s(const gguf_file *file, const char *key, uint32_t *out_values, size_t n)
{
    entry e = {0};
    ENGINE_TRY(find_array(file, key, "an array of unsigned integers", n, &e));
    for (size_t i = 0; i < n; i++)
        ENGINE_TRY(u32_at(&e, i, &out_values[i]));
    return QSA_OK;
}

qsa_status gguf_file_u64s(const gguf_file *file, const char *key, uint64_t *out_values, size_t n)
{
    entry e = {0};
    ENGINE_TRY(find_array(file, key, "an array of unsigned integers", n, &e));
    for (size_t i = 0; i < n; i++)
        ENGINE_TRY(unsigned_at(&e, i, UINT64_MAX, "an unsigned integer", &out_values[i]));
    return QSA_OK;
}

qsa_status gguf_file_strings(const gguf_file *file, const char *key, const char **out_values, size_t n)
{
    entry e = {0};
    ENGINE_TRY(find_array(file, key, "an array of strings", n, &e));
    if (e.type != GGUF_TYPE_STRING)
        return fail_type(&e, "an array of strings");
    for (size_t i = 0; i < n; i++)
        out_values[i] = e.strings[i];
    return QSA_OK;
}
