/* SPDX-License-Identifier: Apache-2.0 */
/* A golden file in memory. It is kept as one writable copy of its bytes; words and texts point into it. Entries are
 * found by a linear search: a record has a few dozen, and at most GOLDEN_ENTRIES_MAX. */
#ifndef QSA_VERIFY_GOLDEN_RECORDS_H
#define QSA_VERIFY_GOLDEN_RECORDS_H

#include "verify/golden_file.h"

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
    bool has_records; /* `case` and `piece` begin a record */
};

/* Parses [bytes, bytes + size), which the file owns, into records. False with the error set: the file then holds what
 * was read so far and must be freed. */
bool golden_parse_bytes(golden_file *file, size_t size, golden_error *error);

/* The entry of that name, or NULL. */
golden_entry *golden_find(const golden_record *record, const char *name);

void golden_free_entry(golden_entry *entry);

#endif
