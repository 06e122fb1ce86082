/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: keys and tensors by name, checked before anything is used. Knows no model.
 *
 * A gguf_file is one file, or all shards of a split one, mapped read-only. Bytes are hostile: whatever the file claims
 * is checked against its real size before it is used, so after a successful open every tensor lies inside its map and
 * every name is what it seems. Keys are those of the first shard; tensors are those of all shards together.
 *
 * Every function that can fail returns a status, leaves its out-parameters alone, and says one line in
 * engine_error_detail() that names the file and the key or tensor. A file that somebody shortens while it is mapped is
 * beyond our reach: the system then ends the program with SIGBUS. */
#ifndef QSA_ENGINE_GGUF_FILE_H
#define QSA_ENGINE_GGUF_FILE_H

#include <ggml.h>
#include <qsa/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gguf_file gguf_file;

/* Limits; a file beyond them is refused by name. They bound the memory that reading a hostile file can take. */
enum {
    GGUF_FILE_MAX_KEYS = 1 << 16,
    GGUF_FILE_MAX_TENSORS = 1 << 18,      /* per shard */
    GGUF_FILE_MAX_STRINGS = 1 << 22,      /* in all string arrays of a shard together */
    GGUF_FILE_MAX_HEADER_BYTES = 1 << 28, /* keys and tensor infos of a shard */
    GGUF_FILE_MIN_ALIGNMENT = 32          /* of tensor data: what ggml's kernels expect of weights used in place */
};

/* Opens a file, or the first shard of a split one: the others are found beside it by their names. Tensor types that
 * cannot be turned into f32 are refused. Errors: QSA_E_IO (missing, a directory, no regular file, unreadable),
 * QSA_E_FORMAT (not a GGUF, truncated, inconsistent), QSA_E_UNSUPPORTED (version or tensor type), QSA_E_LIMIT,
 * QSA_E_MEMORY. */
qsa_status gguf_file_open(const char *path, gguf_file **out_file);

/* The same from memory, for one file that is not split. name stands for the path in messages. data must outlive the
 * file and be aligned to GGUF_FILE_MIN_ALIGNMENT. */
qsa_status gguf_file_open_memory(const char *name, const void *data, size_t size_bytes, gguf_file **out_file);

void gguf_file_close(gguf_file *file);

uint32_t gguf_file_shards(const gguf_file *file);
uint64_t gguf_file_bytes(const gguf_file *file);   /* of all shards */
const char *gguf_file_name(const gguf_file *file); /* path of the first shard, as given */

/* A fingerprint: XXH3 of each shard's length, keys and tensor infos, and of every tensor's bytes up to 16 KiB, of
 * larger ones four pieces of 4 KiB, from the first bytes to the last. Cheap for files of any size; two that differ only
 * between the pieces have the same. */
uint64_t gguf_file_digest(const gguf_file *file);

/* ---- keys ----
 * A getter of a key that is not there fails with QSA_E_FORMAT, as does one of another type, or of a value that does not
 * fit; ask gguf_file_has first where a key is optional. Integers of any width are taken if the value fits; an f32
 * may be an f64 in the file, and must be finite. Strings belong to the file. */

bool gguf_file_has(const gguf_file *file, const char *key);
bool gguf_file_is_array(const gguf_file *file, const char *key); /* false too if it is not there */

qsa_status gguf_file_u32(const gguf_file *file, const char *key, uint32_t *out_value);
qsa_status gguf_file_f32(const gguf_file *file, const char *key, float *out_value);
qsa_status gguf_file_bool(const gguf_file *file, const char *key, bool *out_value);
qsa_status gguf_file_string(const gguf_file *file, const char *key, const char **out_value);

/* Elements of an array of any type. */
qsa_status gguf_file_length(const gguf_file *file, const char *key, size_t *out_n);

/* Arrays: exactly n elements, or it fails. On failure the contents of out_values are unspecified. */
qsa_status gguf_file_bools(const gguf_file *file, const char *key, bool *out_values, size_t n);
qsa_status gguf_file_i32s(const gguf_file *file, const char *key, int32_t *out_values, size_t n);
qsa_status gguf_file_u32s(const gguf_file *file, const char *key, uint32_t *out_values, size_t n);
qsa_status gguf_file_u64s(const gguf_file *file, const char *key, uint64_t *out_values, size_t n);
qsa_status gguf_file_strings(const gguf_file *file, const char *key, const char **out_values, size_t n);

/* ---- tensors ---- */

typedef struct gguf_file_tensor {
    const char *name;
    enum ggml_type type;
    int64_t dims[GGML_MAX_DIMS]; /* fastest first, all >= 1; 1 beyond those that the file names */
    const void *data;            /* in the map, aligned to GGUF_FILE_MIN_ALIGNMENT */
    size_t bytes;
    uint32_t shard; /* from 0 */
} gguf_file_tensor;

/* NULL if there is none of that name. */
const gguf_file_tensor *gguf_file_find(const gguf_file *file, const char *name);

/* All tensors, in ascending order of their names. */
size_t gguf_file_tensor_count(const gguf_file *file);
const gguf_file_tensor *gguf_file_tensor_at(const gguf_file *file, size_t i); /* NULL from the last one on */

uint64_t gguf_file_tensor_elements(const gguf_file_tensor *tensor);

/* The whole tensor as f32, in the order of its elements: out_values [gguf_file_tensor_elements]. */
void gguf_file_dequantise(const gguf_file_tensor *tensor, float *out_values);

#endif
