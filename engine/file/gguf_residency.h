/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors of an open file stay in memory, and how. */
#ifndef QSA_ENGINE_GGUF_RESIDENCY_H
#define QSA_ENGINE_GGUF_RESIDENCY_H

#include "file/gguf_types.h"

#include <qsa/status.h>
#include <stdbool.h>

/* Whether the tensor is one of those meant. */
typedef bool gguf_choice(const void *user, const gguf_file_tensor *tensor);

/* Reads the chosen tensors from the file into memory of the file's own, in huge pages where the kernel has them; their
 * data is there from now on. The next call to gguf_file_close frees it. At most once per file. Errors: QSA_E_MEMORY,
 * QSA_E_IO. */
qsa_status gguf_file_load(gguf_file *file, gguf_choice *choice, const void *user, uint64_t *out_bytes);

/* Locks the pages of the chosen tensors into memory, which reads them. Errors: QSA_E_MEMORY (too little, or more than
 * `ulimit -l` allows). */
qsa_status gguf_file_lock(gguf_file *file, gguf_choice *choice, const void *user, uint64_t *out_bytes);

/* Tells the kernel that the chosen tensors are read a row here and there: no read-ahead. */
void gguf_file_scatter(gguf_file *file, gguf_choice *choice, const void *user);

/* The path of the shard whose mapping holds the address; NULL: none. Async-signal-safe. */
const char *gguf_file_mapped_at(const gguf_file *file, const void *address);

#endif
