/* The file is kept as one writable copy; words point into it. Entries are looked up by a linear search: a record
 * has a few dozen, and at most GOLDEN_ENTRIES_MAX. */
#include "verify/golden_file.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum entry_kind { ENTRY_WORDS, ENTRY_TEXT, ENTRY_TENSOR } entry_kind;

typedef struct golden_entry {
    const char *name;
    size_t line;
    entry_kind kind;
    char **words; /* ENTRY_WORDS */
    size_t word_count;
    char *text; /* ENTRY_TEXT: unescaped in place */
    size_t text_size;
    golden_tensor tensor; /* ENTRY_TENSOR */
} golden_entry;

struct golden_record {
    const char *file_name;
    const char *type;
    const char *name;
    size_t line;
    golden_entry *entries;
    size_t count, capacity;
};

struct golden_file {
    char *name;
    char *bytes;
    golden_record *records; /* the header first */
    size_t count, capacity;
    bool has_records; /* `case` and `piece` begin one */
};

typedef struct parser {
    golden_file *file;
    char *next, *end; /* the bytes not read yet */
    size_t line;      /* number of the line read last */
    golden_error *error;
} parser;

void golden_fail(golden_error *error, const char *format, ...)
{
    if (error->text[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

/* ------------------------------------------------------------------ lines and words */

/* Always false. `which` names the thing, or is empty. */
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

/* Cuts the first word off; *rest is NULL behind the last one. An empty word means a space too many. */
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

/* ------------------------------------------------------------------ text */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

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
        if (c[1] != 'x' || hex_digit(c[2]) < 0 || hex_digit(c[3]) < 0)
            return parse_fail(p, "a backslash that does not begin \\xHH in", entry->name);
        *out++ = (char)(hex_digit(c[2]) * 16 + hex_digit(c[3]));
        c += 3;
    }
    *out = '\0';
    entry->text_size = (size_t)(out - text);
    return true;
}

/* ------------------------------------------------------------------ numbers */

static bool parse_hex(const char *word, size_t least_digits, size_t most_digits, uint64_t *out)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; word[digits]; digits++) {
        int digit = hex_digit(word[digits]);
        if (digit < 0 || digits == most_digits)
            return false;
        value = value * 16 + (uint64_t)digit;
    }
    *out = value;
    return digits >= least_digits;
}

static bool parse_integer(const char *word, int64_t *out)
{
    if (word[0] != '-' && (word[0] < '0' || word[0] > '9'))
        return false; /* strtoll would take spaces and a plus sign */
    char *stop;
    errno = 0;
    *out = strtoll(word, &stop, 10);
    return errno == 0 && stop != word && *stop == '\0';
}

static bool parse_number(const char *word, double *out)
{
    int64_t exponent;
    if (strncmp(word, "2^", 2) == 0) {
        if (!parse_integer(word + 2, &exponent) || exponent < -1000 || exponent > 1000)
            return false;
        *out = ldexp(1.0, (int)exponent);
        return true;
    }
    if (word[strspn(word, "0123456789.eE+-")] != '\0')
        return false; /* no inf, nan or hexadecimal */
    char *stop;
    *out = strtod(word, &stop);
    return stop != word && *stop == '\0' && isfinite(*out);
}

/* ------------------------------------------------------------------ tensors */

static bool tensor_element(golden_tensor *tensor, size_t index, const char *word)
{
    uint64_t bits;
    int64_t integer;
    if (tensor->type == GOLDEN_I32) {
        if (!parse_integer(word, &integer) || integer < INT32_MIN || integer > INT32_MAX)
            return false;
        tensor->integers[index] = (int32_t)integer;
        return true;
    }
    size_t digits = tensor->type == GOLDEN_F32 ? 8 : 4;
    if (!parse_hex(word, digits, digits, &bits))
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

/* The dims. A number takes at least two bytes with its separator, which bounds what an honest file can announce. */
static bool tensor_shape(parser *p, golden_tensor *tensor, char *rest, const char *name)
{
    size_t most = (size_t)(p->end - p->next) / 2;
    tensor->count = 1;
    while (rest) {
        int64_t dim;
        char *word = cut_word(&rest);
        if (!parse_integer(word, &dim) || dim < 0)
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

/* ------------------------------------------------------------------ records */

static golden_entry *find(const golden_record *record, const char *name)
{
    for (size_t i = 0; i < record->count; i++)
        if (strcmp(record->entries[i].name, name) == 0)
            return &record->entries[i];
    return NULL;
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

static void free_entry(golden_entry *entry)
{
    free(entry->words);
    free(entry->tensor.floats);
    free(entry->tensor.integers);
}

/* Takes the entry over, whether it can be added or not. */
static bool add_entry(parser *p, golden_entry *entry)
{
    golden_record *record = &p->file->records[p->file->count - 1];
    bool ok = true;
    if (find(record, entry->name))
        ok = parse_fail_at(entry->line, p, "occurs a second time", entry->name);
    else if (record->count == GOLDEN_ENTRIES_MAX)
        ok = parse_fail_at(entry->line, p, "too many entries", entry->name);
    else if (!make_room((void **)&record->entries, &record->capacity, record->count, sizeof *record->entries))
        ok = out_of_memory(p);
    if (ok)
        record->entries[record->count++] = *entry;
    else
        free_entry(entry);
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
        free_entry(&entry);
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

static bool parse_file(parser *p)
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

/* ------------------------------------------------------------------ files */

/* Takes `bytes` over. */
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
    parser p = {.file = file, .next = bytes, .end = bytes + size, .error = error};
    if (!parse_file(&p)) {
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

/* Reads to the end without asking for the size first, so that pipes work as well. */
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
            free_entry(&file->records[i].entries[j]);
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
    return &file->records[index + 1];
}

const char *golden_kind(const golden_file *file)
{
    return find(golden_header(file), "kind")->words[0];
}

const char *golden_record_type(const golden_record *record)
{
    return record->type;
}

const char *golden_record_name(const golden_record *record)
{
    return record->name;
}

/* ------------------------------------------------------------------ getters */

static golden_entry *require(const golden_record *record, const char *name, entry_kind kind, golden_error *error)
{
    static const char *const kinds[] = {"words", "text", "a tensor"};
    golden_entry *entry = find(record, name);
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
    return find(record, key) != NULL;
}

size_t golden_words(const golden_record *record, const char *key)
{
    const golden_entry *entry = find(record, key);
    return entry ? entry->word_count : 0;
}

bool golden_is(const golden_record *record, const char *key, const char *word)
{
    const golden_entry *entry = find(record, key);
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
    golden_fail(error, "%s: line %zu: '%s' must be %s, not '%.40s'", record->file_name, find(record, key)->line, key,
                wanted, word);
}

int64_t golden_integer(const golden_record *record, const char *key, size_t index, golden_error *error)
{
    int64_t value = 0;
    const char *word = golden_word(record, key, index, error);
    if (word && !parse_integer(word, &value)) {
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
    if (word && (!parse_integer(word, &value) || value < least || value > most)) {
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
    if (word && !parse_number(word, &value)) {
        fail_word(record, key, word, "a finite number", error);
        return 0;
    }
    return value;
}

uint64_t golden_hex(const golden_record *record, const char *key, size_t index, golden_error *error)
{
    uint64_t value = 0;
    const char *word = golden_word(record, key, index, error);
    if (word && !parse_hex(word, 1, 16, &value)) {
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
        golden_fail(error, "%s: line %zu: tensor '%s' must have %zu %s", record->file_name, find(record, name)->line,
                    name, count, integers ? "i32" : "f32 or bf16");
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
                    find(record, begin_name)->line, begin_name, values->count, name);
        return none;
    }
    return (golden_ragged){.begin = begin, .values = values};
}
