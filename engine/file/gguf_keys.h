/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a GGUF file; of a split file, those of its first shard.
 *
 * A getter fails with QSA_E_FORMAT if the key is missing, has another type, or its value does not fit. For an optional
 * key ask gguf_file_has first. Integers of any width are accepted if the value fits. An f32 may be stored as f64, and
 * must be finite. Strings belong to the file. */
#ifndef QSA_ENGINE_GGUF_KEYS_H
#define QSA_ENGINE_GGUF_KEYS_H

#include "file/gguf_types.h"

#include <qsa/status.h>
#include <stdbool.h>

bool gguf_file_has(const gguf_file *file, const char *key);
bool gguf_file_is_array(const gguf_file *file, const char *key); /* false also if the key is missing */

qsa_status gguf_file_u32(const gguf_file *file, const char *key, uint32_t *out_value);
qsa_status gguf_file_f32(const gguf_file *file, const char *key, float *out_value);
qsa_status gguf_file_bool(const gguf_file *file, const char *key, bool *out_value);
qsa_status gguf_file_string(const gguf_file *file, const char *key, const char **out_value);

/* The keys of all shards, shard by shard, ascending in each. */
size_t gguf_file_key_count(const gguf_file *file);
const char *gguf_file_key_at(const gguf_file *file, size_t i); /* NULL if i >= the count */

/* A number or bool, or an array of at most `most` of them, as f64: out_values [most]. A 64-bit integer is rounded. */
qsa_status gguf_file_numbers(const gguf_file *file, const char *key, double *out_values, size_t most, size_t *out_n);

/* The number of elements of an array of any type. */
qsa_status gguf_file_length(const gguf_file *file, const char *key, size_t *out_n);

/* Arrays of exactly n elements. On failure the contents of out_values are unspecified. */
qsa_status gguf_file_bools(const gguf_file *file, const char *key, bool *out_values, size_t n);
qsa_status gguf_file_i32s(const gguf_file *file, const char *key, int32_t *out_values, size_t n);
qsa_status gguf_file_u32s(const gguf_file *file, const char *key, uint32_t *out_values, size_t n);
qsa_status gguf_file_u64s(const gguf_file *file, const char *key, uint64_t *out_values, size_t n);
qsa_status gguf_file_strings(const gguf_file *file, const char *key, const char **out_values, size_t n);

#endif
