/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a record: words, texts, tensors. */
#include "verify/golden_records.h"
#include "verify/golden_words.h"

#include <stdio.h>
#include <string.h>

static golden_entry *require(const golden_record *record, const char *name, entry_kind kind, golden_error *error)
{
    static const char *const kinds[] = {"words", "text", "a tensor"};
    golden_entry *entry = golden_find(record, name);
    if (!entry && record->type[0]) {
        golden_fail(error, "%s: line %zu: %s %s has no '%s'", record->file_name, record->line, record->type,
                    record->name, name);
    } else if (!entry) {
        golden_fail(error, "%s: no '%s'", record->file_name, name);
    } else if (entry->kind != kind) {
        golden_fail(error, "%s: line %zu: '%s' must be %s", record->file_name, entry->line, name, kinds[kind]);
        entry = NULL;
    }
    return entry;
}

bool golden_has(const golden_record *record, const char *key)
{
    return golden_find(record, key) != NULL;
}

size_t golden_words(const golden_record *record, const char *key)
{
    const golden_entry *entry = golden_find(record, key);
    return entry ? entry->word_count : 0;
}

bool golden_is(const golden_record *record, const char *key, const char *word)
{
    const golden_entry *entry = golden_find(record, key);
    return entry && entry->word_count == 1 && strcmp(entry->words[0], word) == 0;
}

const char *golden_word(const golden_record *record, const char *key, size_t index, golden_error *error)
{
    const golden_entry *entry = require(record, key, ENTRY_WORDS, error);
    if (entry && index >= entry->word_count) {
        golden_fail(error, "%s: line %zu: '%s' has %zu words, number %zu is missing", record->file_name, entry->line,
                    key, entry->word_count, index + 1);
        return NULL;
    }
    return entry ? entry->words[index] : NULL;
}

static void fail_word(const golden_record *record, const char *key, const char *word, const char *wanted,
                      golden_error *error)
{
    golden_fail(error, "%s: line %zu: '%s' must be %s, not '%.40s'", record->file_name, golden_find(record, key)->line,
                key, wanted, word);
}

int64_t golden_integer(const golden_record *record, const char *key, size_t index, golden_error *error)
{
    int64_t value = 0;
    const char *word = golden_word(record, key, index, error);
    if (word && !golden_parse_integer(word, &value)) {
        fail_word(record, key, word, "an integer", error);
        return 0;
    }
    return value;
}

int64_t golden_integer_within(const golden_record *record, const char *key, size_t index, int64_t least, int64_t most,
                              golden_error *error)
{
    int64_t value = 0;
    const char *word = golden_word(record, key, index, error);
    if (word && (!golden_parse_integer(word, &value) || value < least || value > most)) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)least, (long long)most);
        fail_word(record, key, word, wanted, error);
        return 0;
    }
    return value;
}

double golden_number(const golden_record *record, const char *key, size_t index, golden_error *error)
{
    double value = 0;
    const char *word = golden_word(record, key, index, error);
    if (word && !golden_parse_number(word, &value)) {
        fail_word(record, key, word, "a finite number", error);
        return 0;
    }
    return value;
}

uint64_t golden_hex(const golden_record *record, const char *key, size_t index, golden_error *error)
{
    uint64_t value = 0;
    const char *word = golden_word(record, key, index, error);
    if (word && !golden_parse_hex(word, 1, 16, &value)) {
        fail_word(record, key, word, "1 to 16 hexadecimal digits", error);
        return 0;
    }
    return value;
}

const char *golden_text(const golden_record *record, const char *key, size_t *out_size_bytes, golden_error *error)
{
    const golden_entry *entry = require(record, key, ENTRY_TEXT, error);
    *out_size_bytes = entry ? entry->text_size : 0;
    return entry ? entry->text : NULL;
}

const golden_tensor *golden_find_tensor(const golden_record *record, const char *name, golden_error *error)
{
    golden_entry *entry = require(record, name, ENTRY_TENSOR, error);
    return entry ? &entry->tensor : NULL;
}

static const golden_tensor *sized_tensor(const golden_record *record, const char *name, bool integers, size_t count,
                                         golden_error *error)
{
    const golden_tensor *tensor = golden_find_tensor(record, name, error);
    if (tensor && ((tensor->type == GOLDEN_I32) != integers || tensor->count != count)) {
        golden_fail(error, "%s: line %zu: tensor '%s' must have %zu %s", record->file_name,
                    golden_find(record, name)->line, name, count, integers ? "i32" : "f32 or bf16");
        return NULL;
    }
    return tensor;
}

const float *golden_floats(const golden_record *record, const char *name, size_t count, golden_error *error)
{
    const golden_tensor *tensor = sized_tensor(record, name, false, count, error);
    return tensor ? tensor->floats : NULL;
}

const int32_t *golden_integers(const golden_record *record, const char *name, size_t count, golden_error *error)
{
    const golden_tensor *tensor = sized_tensor(record, name, true, count, error);
    return tensor ? tensor->integers : NULL;
}

golden_ragged golden_find_ragged(const golden_record *record, const char *name, size_t rows, golden_error *error)
{
    golden_ragged none = {0};
    char begin_name[128];
    if ((size_t)snprintf(begin_name, sizeof begin_name, "%s_begin", name) >= sizeof begin_name) {
        golden_fail(error, "%s: the name '%.40s...' is too long", record->file_name, name);
        return none;
    }
    const golden_tensor *values = golden_find_tensor(record, name, error);
    const int32_t *begin = golden_integers(record, begin_name, rows + 1, error);
    if (!values || !begin)
        return none;
    bool ok = begin[0] == 0 && (size_t)begin[rows] == values->count;
    for (size_t row = 0; row < rows; row++)
        ok = ok && begin[row] <= begin[row + 1];
    if (!ok) {
        golden_fail(error, "%s: line %zu: '%s' must rise from 0 to %zu, the size of '%s'", record->file_name,
                    golden_find(record, begin_name)->line, begin_name, values->count, name);
        return none;
    }
    return (golden_ragged){.begin = begin, .values = values};
}
