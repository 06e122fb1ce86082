/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the header of a GGUF. Internal to engine/file. */
#ifndef QSA_ENGINE_GGUF_SCAN_H
#define QSA_ENGINE_GGUF_SCAN_H

#include "file/gguf_types.h"

#include <gguf.h>
#include <qsa/status.h>
#include <stdbool.h>

typedef struct gguf_key {
    const char *name;
    enum gguf_type type; /* of an array: of its elements */
    bool is_array;
    size_t n;             /* elements; 1 if not an array */
    const void *values;   /* [n] in the file, of any alignment; NULL: strings */
    const char **strings; /* [n] */
} gguf_key;

typedef struct gguf_tensor_info {
    const char *name;
    uint32_t type; /* not checked yet */
    int64_t dims[GGML_MAX_DIMS];
    uint64_t offset; /* of its data, from the start of all data */
} gguf_tensor_info;

typedef struct gguf_head {
    gguf_key *keys; /* [key_count], ascending by name, names unique */
    size_t key_count;
    gguf_tensor_info *tensors; /* [tensor_count], in the order of the file */
    size_t tensor_count;
    size_t alignment, data_offset; /* of all tensor data */
    const char **strings;          /* owned: of all keys */
    char *text;                    /* owned: names and strings, each terminated */
} gguf_head;

typedef struct gguf_counts {
    size_t keys, tensors;
    size_t strings;    /* values that are strings, elements of arrays included */
    size_t text_bytes; /* of all names and strings, with a terminator each */
    size_t header_bytes;
} gguf_counts;

/* Checks that every length and count fits the rest of the file and the limits of gguf_types.h, so memory is bounded; no
 * string holds a NUL byte (in C "a\0b" and "a\0c" are the same name); no dimension is zero. head NULL: only counts;
 * else fills its arrays, which have room for the counts, keys in the order of the file. Allocates nothing. name is the
 * file's name in messages. Errors: QSA_E_FORMAT, QSA_E_UNSUPPORTED (version), QSA_E_LIMIT. */
qsa_status gguf_scan(const char *name, const void *data, size_t size_bytes, gguf_head *head, gguf_counts *out_counts);

#endif
