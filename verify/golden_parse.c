/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the bytes of a golden file into records. */
#include "verify/golden_records.h"
#include "verify/golden_words.h"

#include <stdlib.h>
#include <string.h>

typedef struct parser {
    golden_file *file;
    char *next, *end; /* the unread bytes */
    size_t line;      /* number of the last line read */
    golden_error *error;
} parser;

/* Sets an error and returns false. `which` is the item at fault, or empty. */
static bool parse_fail_at(size_t line, parser *p, const char *what, const char *which)
{
    golden_fail(p->error, "%s: line %zu: %s%s%.60s%s", p->file->name, line, what, which[0] ? ": '" : "", which,
                which[0] ? "'" : "");
    return false;
}

static bool parse_fail(parser *p, const char *what, const char *which)
{
    return parse_fail_at(p->line, p, what, which);
}

static bool out_of_memory(parser *p)
{
    return parse_fail(p, "out of memory", "");
}

/* Grows an array so that one more element fits. */
static bool make_room(void **array, size_t *capacity, size_t count, size_t element_size)
{
    if (count < *capacity)
        return true;
    size_t wanted = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*array, wanted * element_size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

static bool next_line(parser *p, char **out_line)
{
    p->line++;
    char *line = p->next;
    char *stop = memchr(line, '\n', (size_t)(p->end - line));
    if (!stop)
        return parse_fail(p, line == p->end ? "the file ends without a line 'end'" : "no line break at the end", "");
    for (const char *c = line; c < stop; c++)
        if (*c < 0x20 || *c > 0x7e)
            return parse_fail(p, "a byte outside 0x20 to 0x7e", "");
    *stop = '\0';
    p->next = stop + 1;
    *out_line = line;
    return true;
}

/* Cuts off the first word; *rest is NULL after the last one. An empty word means an extra space. */
static char *cut_word(char **rest)
{
    char *word = *rest;
    char *space = strchr(word, ' ');
    *rest = space ? space + 1 : NULL;
    if (space)
        *space = '\0';
    return word;
}

static bool split_words(parser *p, char *rest, golden_entry *entry)
{
    size_t capacity = 0;
    while (rest) {
        char *word = cut_word(&rest);
        if (!word[0])
            return parse_fail(p, "words must be separated by one space", entry->name);
        if (!make_room((void **)&entry->words, &capacity, entry->word_count, sizeof *entry->words))
            return out_of_memory(p);
        entry->words[entry->word_count++] = word;
    }
    return true;
}

/* ---- text ---- */

/* In place: no escape is shorter than the byte it stands for. */
static bool unescape(parser *p, char *text, golden_entry *entry)
{
    char *out = text;
    entry->text = text;
    for (const char *c = text; *c; c++) {
        if (*c != '\\') {
            *out++ = *c;
            continue;
        }
        if (c[1] != 'x' || golden_hex_digit(c[2]) < 0 || golden_hex_digit(c[3]) < 0)
            return parse_fail(p, "a backslash that does not begin \\xHH in", entry->name);
        *out++ = (char)(golden_hex_digit(c[2]) * 16 + golden_hex_digit(c[3]));
        c += 3;
    }
    *out = '\0';
    entry->text_size = (size_t)(out - text);
    return true;
}

/* ---- tensors ---- */

static bool tensor_element(golden_tensor *tensor, size_t index, const char *word)
{
    uint64_t bits;
    int64_t integer;
    if (tensor->type == GOLDEN_I32) {
        if (!golden_parse_integer(word, &integer) || integer < INT32_MIN || integer > INT32_MAX)
            return false;
        tensor->integers[index] = (int32_t)integer;
        return true;
    }
    size_t digits = tensor->type == GOLDEN_F32 ? 8 : 4;
    if (!golden_parse_hex(word, digits, digits, &bits))
        return false;
    uint32_t pattern = (uint32_t)bits << (tensor->type == GOLDEN_F32 ? 0 : 16);
    memcpy(&tensor->floats[index], &pattern, sizeof pattern);
    return true;
}

static bool tensor_type(const char *word, golden_type *out)
{
    static const char *const names[] = {"f32", "bf16", "i32"};
    for (int type = GOLDEN_F32; type <= GOLDEN_I32; type++) {
        if (strcmp(word, names[type]) == 0) {
            *out = (golden_type)type;
            return true;
        }
    }
    return false;
}

/* The dims. Every number takes at least two bytes with its separator, which limits the count that a file may claim. */
static bool tensor_shape(parser *p, golden_tensor *tensor, char *rest, const char *name)
{
    size_t most = (size_t)(p->end - p->next) / 2;
    tensor->count = 1;
    while (rest) {
        int64_t dim;
        char *word = cut_word(&rest);
        if (!golden_parse_integer(word, &dim) || dim < 0)
            return parse_fail(p, "a dimension that is no number of tensor", name);
        if (tensor->rank == GOLDEN_RANK_MAX)
            return parse_fail(p, "too many dimensions of tensor", name);
        if (dim != 0 && tensor->count > most / (uint64_t)dim)
            return parse_fail(p, "more numbers announced than the file can hold, tensor", name);
        tensor->dims[tensor->rank++] = (size_t)dim;
        tensor->count *= (size_t)dim;
    }
    return tensor->rank > 0 || parse_fail(p, "no dimension of tensor", name);
}

static bool tensor_numbers(parser *p, golden_tensor *tensor, const char *name)
{
    void *numbers = calloc(tensor->count ? tensor->count : 1, sizeof(float));
    if (!numbers)
        return out_of_memory(p);
    if (tensor->type == GOLDEN_I32)
        tensor->integers = numbers;
    else
        tensor->floats = numbers;
    for (size_t index = 0; index < tensor->count;) {
        char *rest;
        if (!next_line(p, &rest))
            return false;
        while (rest) {
            char *word = cut_word(&rest);
            if (index == tensor->count)
                return parse_fail(p, "more numbers than announced in tensor", name);
            if (!tensor_element(tensor, index++, word))
                return parse_fail(p, "not a number of the tensor's type", word);
        }
    }
    return true;
}

/* rest: NAME TYPE DIM0 DIM1 ... */
static bool parse_tensor(parser *p, char *rest, golden_entry *entry)
{
    entry->kind = ENTRY_TENSOR;
    entry->name = rest ? cut_word(&rest) : "";
    if (!entry->name[0])
        return parse_fail(p, "a tensor without a name", "");
    if (!rest || !tensor_type(cut_word(&rest), &entry->tensor.type))
        return parse_fail(p, "the type must be f32, bf16 or i32 of tensor", entry->name);
    return tensor_shape(p, &entry->tensor, rest, entry->name) && tensor_numbers(p, &entry->tensor, entry->name);
}

/* ---- records ---- */

golden_entry *golden_find(const golden_record *record, const char *name)
{
    for (size_t i = 0; i < record->count; i++)
        if (strcmp(record->entries[i].name, name) == 0)
            return &record->entries[i];
    return NULL;
}

void golden_free_entry(golden_entry *entry)
{
    free(entry->words);
    free(entry->tensor.floats);
    free(entry->tensor.integers);
}

static bool add_record(parser *p, const char *type, const char *name)
{
    golden_file *file = p->file;
    if (!make_room((void **)&file->records, &file->capacity, file->count, sizeof *file->records))
        return out_of_memory(p);
    file->records[file->count++] =
        (golden_record){.file_name = file->name, .type = type, .name = name, .line = p->line};
    return true;
}

/* Owns the entry from here on, even if adding it fails. */
static bool add_entry(parser *p, golden_entry *entry)
{
    golden_record *record = &p->file->records[p->file->count - 1];
    bool ok = true;
    if (golden_find(record, entry->name))
        ok = parse_fail_at(entry->line, p, "occurs a second time", entry->name);
    else if (record->count == GOLDEN_ENTRIES_MAX)
        ok = parse_fail_at(entry->line, p, "too many entries", entry->name);
    else if (!make_room((void **)&record->entries, &record->capacity, record->count, sizeof *record->entries))
        ok = out_of_memory(p);
    if (ok)
        record->entries[record->count++] = *entry;
    else
        golden_free_entry(entry);
    return ok;
}

static bool begins_record(const golden_file *file, const char *key)
{
    return file->has_records && (strcmp(key, "case") == 0 || strcmp(key, "piece") == 0);
}

static bool is_text_key(const char *key)
{
    return strcmp(key, "text") == 0 || strcmp(key, "decoded") == 0 || strcmp(key, "next_text") == 0;
}

static bool parse_entry(parser *p, const char *key, char *rest)
{
    golden_entry entry = {.name = key, .line = p->line};
    bool ok;
    if (strcmp(key, "tensor") == 0) {
        ok = parse_tensor(p, rest, &entry);
    } else if (is_text_key(key)) {
        entry.kind = ENTRY_TEXT;
        ok = rest ? unescape(p, rest, &entry) : parse_fail(p, "no space after the key", key);
    } else {
        ok = split_words(p, rest, &entry);
    }
    if (!ok) {
        golden_free_entry(&entry);
        return false;
    }
    return add_entry(p, &entry);
}

static bool parse_record_line(parser *p, const char *type, char *rest)
{
    if (!rest || !rest[0] || strchr(rest, ' '))
        return parse_fail(p, "needs one name", type);
    return add_record(p, type, rest);
}

/* The first two lines: golden 1, kind KIND. */
static bool parse_opening(parser *p)
{
    char *line;
    if (!next_line(p, &line))
        return false;
    if (strcmp(line, "golden 1") != 0)
        return parse_fail(p, "the first line must be 'golden 1', not", line);
    if (!add_record(p, "", p->file->name) || !next_line(p, &line))
        return false;
    char *rest = line;
    char *key = cut_word(&rest);
    if (strcmp(key, "kind") != 0 || !rest || !rest[0] || strchr(rest, ' '))
        return parse_fail(p, "the second line must be 'kind' and one word, not", key);
    p->file->has_records = strcmp(rest, "canonical") == 0 || strcmp(rest, "tokenizer") == 0;
    return parse_entry(p, key, rest);
}

static bool parse_lines(parser *p)
{
    if (!parse_opening(p))
        return false;
    for (;;) {
        char *rest;
        if (!next_line(p, &rest))
            return false;
        char *key = cut_word(&rest);
        if (strcmp(key, "end") == 0 && !rest)
            return p->next == p->end || parse_fail(p, "bytes after the line 'end'", "");
        if (!key[0])
            return parse_fail(p, "a line without a key", "");
        if (!(begins_record(p->file, key) ? parse_record_line(p, key, rest) : parse_entry(p, key, rest)))
            return false;
    }
}

bool golden_parse_bytes(golden_file *file, size_t size, golden_error *error)
{
    parser p = {.file = file, .next = file->bytes, .end = file->bytes + size, .error = error};
    return parse_lines(&p);
}
