/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of the golden text format: recorded results that an implementation is compared with.
 *
 * A file is lines of ASCII. The first is `golden 1`, the last is `end`. In between stand entries:
 *
 *     key word word ...                words, separated by one space
 *     text ANY \xHH TEXT               the keys text, decoded and next_text: the rest of the line, bytes escaped
 *     tensor NAME TYPE DIM DIM ...     and on the next lines DIM*DIM*... numbers (f32 and bf16 as hex bits, i32)
 *
 * The entries of a file form its header. In files of kind `canonical` and `tokenizer` a line `case NAME` or
 * `piece NAME` begins a record, which owns the entries after it; in all others `case` is an ordinary key.
 * Within the header, or within one record, every name occurs once.
 *
 * Rules that hold for all functions below:
 * - Files are untrusted: for any bytes, reading returns a file or an error with the line number.
 * - A golden_error keeps the first error it is given. Start with {{0}}, read as many values as you need, then check
 *   text[0] once. A getter that fails returns 0 or NULL.
 * - The golden_file owns everything returned by pointer, until golden_free(). */
#ifndef QSA_VERIFY_GOLDEN_FILE_H
#define QSA_VERIFY_GOLDEN_FILE_H

#include "verify/golden_error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GOLDEN_RANK_MAX = 4,       /* dimensions of a tensor */
    GOLDEN_ENTRIES_MAX = 4096, /* entries of a header or record */
    GOLDEN_FILE_MIB_MAX = 1024
};

typedef enum golden_type { GOLDEN_F32, GOLDEN_BF16, GOLDEN_I32 } golden_type;

typedef struct golden_tensor {
    golden_type type;
    size_t rank;
    size_t dims[GOLDEN_RANK_MAX]; /* row-major: the last one is the fastest */
    size_t count;                 /* product of the dims */
    float *floats;                /* f32, and bf16 widened; NULL for i32. May hold infinities and NaNs */
    int32_t *integers;            /* i32; otherwise NULL */
} golden_tensor;

typedef struct golden_record golden_record;
typedef struct golden_file golden_file;

/* Reads a whole file. NULL, with the error `PATH: line N: what is wrong`, if it is not valid. */
golden_file *golden_read(const char *path, golden_error *error);

/* The same for bytes in memory, which are copied; errors show `name` instead of a path. */
golden_file *golden_parse(const char *bytes, size_t size_bytes, const char *name, golden_error *error);

void golden_free(golden_file *file); /* NULL is legal */

const golden_record *golden_header(const golden_file *file);
size_t golden_record_count(const golden_file *file);
const golden_record *golden_record_at(const golden_file *file, size_t index); /* index < count */
const char *golden_kind(const golden_file *file);                             /* the header's kind: stage, model, ... */

/* `case` or `piece`, and the word after it; for a header the empty string and the file's name. */
const char *golden_record_type(const golden_record *record);
const char *golden_record_name(const golden_record *record);

/* Words. `index` counts from 0 after the key. golden_words: their number, 0 if the key is missing. golden_is: whether
 * the key has exactly this one word. */
bool golden_has(const golden_record *record, const char *key);
bool golden_is(const golden_record *record, const char *key, const char *word);
size_t golden_words(const golden_record *record, const char *key);
const char *golden_word(const golden_record *record, const char *key, size_t index, golden_error *error);
int64_t golden_integer(const golden_record *record, const char *key, size_t index, golden_error *error);
double golden_number(const golden_record *record, const char *key, size_t index,
                     golden_error *error); /* finite; also 2^-76 */
uint64_t golden_hex(const golden_record *record, const char *key, size_t index,
                    golden_error *error); /* 1 to 16 digits */

/* An integer within [least, most]; anything else is an error that names the limits. */
int64_t golden_integer_within(const golden_record *record, const char *key, size_t index, int64_t least, int64_t most,
                              golden_error *error);

/* Text, unescaped; may hold NUL bytes, and another NUL follows the last byte. */
const char *golden_text(const golden_record *record, const char *key, size_t *out_size_bytes, golden_error *error);

/* Tensors. golden_floats and golden_integers return the numbers of a tensor (f32 or bf16; i32) of exactly `count`. */
const golden_tensor *golden_find_tensor(const golden_record *record, const char *name, golden_error *error);
const float *golden_floats(const golden_record *record, const char *name, size_t count, golden_error *error);
const int32_t *golden_integers(const golden_record *record, const char *name, size_t count, golden_error *error);

/* Rows of unequal length: row i of X is X[begin[i] .. begin[i + 1]), begin being the tensor X_begin. */
typedef struct golden_ragged {
    const int32_t *begin; /* rows + 1 entries: begins with 0, never falls, ends with the size of X */
    const golden_tensor *values;
} golden_ragged;
golden_ragged golden_find_ragged(const golden_record *record, const char *name, size_t rows, golden_error *error);

#endif
