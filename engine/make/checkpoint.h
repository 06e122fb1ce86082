/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a checkpoint as one GGUF file: keys and tensor infos, then the tensors in the order they were added, row by
 * row. Memory holds one block of rows, however large the file is. The file gets its name only when it is complete
 * (base/new_file.h).
 *
 *     open    set keys in head, list every tensor    begin    for each tensor: rows ..., end_tensor    close
 *
 * All functions fail with QSA_E_MEMORY or QSA_E_IO (naming the path). */
#ifndef QSA_ENGINE_MAKE_CHECKPOINT_H
#define QSA_ENGINE_MAKE_CHECKPOINT_H

#include "base/new_file.h"

#include <ggml.h>
#include <gguf.h>
#include <qsa/status.h>
#include <stdbool.h>

typedef struct checkpoint_tensor {
    char name[64];   /* GGML_MAX_NAME */
    int64_t dims[3]; /* fastest first; 0: no such dimension */
    enum ggml_type type;
} checkpoint_tensor;

/* The product of all dimensions but the first. */
int64_t checkpoint_rows_of(const checkpoint_tensor *tensor);

typedef struct checkpoint {
    struct gguf_context *head; /* the caller sets keys in it */
    uint64_t beside;           /* bytes that other files will take on the disk; the caller may set it before begin */
    uint64_t bytes;            /* of the whole file, from checkpoint_begin on */
    uint64_t written;
    const char *path;
    qsa_new_file output;
    bool is_open; /* output must be closed */
    struct ggml_context *shapes;
    void *block; /* rows, converted to the type of their tensor */
    size_t block_bytes;
    uint64_t tensor_bytes; /* of all listed tensors, with padding */
} checkpoint;

/* Room for `tensors` tensors. Close also after a failure. path must stay valid until then. */
qsa_status checkpoint_open(checkpoint *file, const char *path, size_t tensors);

/* Adds a tensor to the list. */
void checkpoint_list(checkpoint *file, const checkpoint_tensor *tensor);

/* Writes keys and tensor infos. QSA_E_IO also if the file is larger than the free disk space. */
qsa_status checkpoint_begin(checkpoint *file);

/* Writes the next n rows of a tensor, converted to its type: elements [n][dims[0]]. */
qsa_status checkpoint_rows(checkpoint *file, const checkpoint_tensor *tensor, const float *elements, int64_t n);
/* The same for rows that have its type already; a tensor may be handed over in any pieces. */
qsa_status checkpoint_blocks(checkpoint *file, const void *blocks, size_t size_bytes);
/* Pads to the offset of the next tensor. */
qsa_status checkpoint_end_tensor(checkpoint *file);

/* If status is QSA_OK the file gets its name, replacing any file of that name; otherwise it is removed. Returns status,
 * or the error of closing. */
qsa_status checkpoint_close(checkpoint *file, qsa_status status);

#endif
