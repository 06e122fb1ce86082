/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: keys (gguf_keys.h) and tensors by name, validated before use. This room does not know the model.
 *
 * A gguf_file is one file, or all shards of a split one, mapped read-only. Files are untrusted: every length, count and
 * offset is checked against the real file size before it is used. After a successful open every tensor lies inside its
 * mapping, and no name or string holds a NUL byte. Keys come from the first shard, tensors from all shards.
 *
 * A function that fails returns a status, leaves its out-parameters unchanged, and sets engine_error_detail() to one
 * line that names the file and the key or tensor. If another process truncates a mapped file, reading it raises SIGBUS
 * (gguf_file_mapped_at tells a handler where). */
#ifndef QSA_ENGINE_GGUF_FILE_H
#define QSA_ENGINE_GGUF_FILE_H

#include "file/gguf_keys.h"
#include "file/gguf_types.h"

#include <qsa/status.h>

/* Opens a file. For a split file, path names its first shard; the others are found next to it by their names. Tensor
 * types that cannot be converted to f32 are refused. Errors: QSA_E_IO (missing, a directory, not a regular file,
 * unreadable), QSA_E_FORMAT (not a GGUF, truncated, inconsistent), QSA_E_UNSUPPORTED (version or tensor type),
 * QSA_E_LIMIT, QSA_E_MEMORY. */
qsa_status gguf_file_open(const char *path, gguf_file **out_file);

/* The same from memory, for a file that is not split. name takes the place of the path in messages. data must outlive
 * the file and be aligned to GGUF_FILE_MIN_ALIGNMENT. Errors also: QSA_E_ARGUMENT (alignment). */
qsa_status gguf_file_open_memory(const char *name, const void *data, size_t size_bytes, gguf_file **out_file);

void gguf_file_close(gguf_file *file); /* NULL is legal */

uint32_t gguf_file_shards(const gguf_file *file);
uint64_t gguf_file_bytes(const gguf_file *file);   /* of all shards */
const char *gguf_file_name(const gguf_file *file); /* the path of the first shard, as given */

/* A fingerprint: XXH3 of every byte of all shards. A file is read once, at the speed of the disk; from then on the
 * user's cache folder has its digest beside its inode, length and times. Errors: QSA_E_IO, QSA_E_MEMORY. */
qsa_status gguf_file_digest(const gguf_file *file, uint64_t *out_digest);

/* ---- tensors ---- */

/* NULL: no tensor has this name. */
const gguf_file_tensor *gguf_file_find(const gguf_file *file, const char *name);

/* All tensors, in ascending order of their names. */
size_t gguf_file_tensor_count(const gguf_file *file);
const gguf_file_tensor *gguf_file_tensor_at(const gguf_file *file, size_t i); /* NULL if i >= the count */

uint64_t gguf_file_tensor_elements(const gguf_file_tensor *tensor);

/* Converts the whole tensor to f32, in element order: out_values [gguf_file_tensor_elements]. */
void gguf_file_dequantise(const gguf_file_tensor *tensor, float *out_values);

#endif
