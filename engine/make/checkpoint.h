/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a checkpoint as one GGUF file: keys and the list of tensors first, then the tensors in the order of the list,
 * row by row, so that memory holds a block of rows however large the file is. The file appears under its name when it
 * is whole (base/new_file.h).
 *
 *     open    keys into head, every tensor listed    begin    (rows ... end_tensor) of every tensor    close
 *
 * Errors of all: QSA_E_MEMORY, QSA_E_IO (naming the path). */
#ifndef QSA_ENGINE_MAKE_CHECKPOINT_H
#define QSA_ENGINE_MAKE_CHECKPOINT_H

#include "base/new_file.h"

#include <ggml.h>
#include <gguf.h>
#include <qsa/status.h>
#include <stdbool.h>

typedef struct checkpoint_tensor {
    char name[64];   /* GGML_MAX_NAME */
    int64_t dims[3]; /* fastest first; 0: none */
    enum ggml_type type;
} checkpoint_tensor;

int64_t checkpoint_rows_of(const checkpoint_tensor *tensor);

typedef struct checkpoint {
    struct gguf_context *head; /* the caller sets keys in it */
    uint64_t bytes;            /* of the whole file, from checkpoint_begin on */
    uint64_t written;
    const char *path;
    qsa_new_file output;
    bool is_open; /* output is */
    struct ggml_context *shapes;
    void *block; /* rows in the type of their tensor */
    size_t block_bytes;
    uint64_t tensor_bytes; /* of all that are listed, padded */
} checkpoint;

/* For at most `tensors` tensors. Close it whatever the status; path is to live until then. */
qsa_status checkpoint_open(checkpoint *file, const char *path, size_t tensors);

void checkpoint_list(checkpoint *file, const checkpoint_tensor *tensor);

/* Writes keys and list. QSA_E_IO also where the disk has less room than the file takes. */
qsa_status checkpoint_begin(checkpoint *file);

/* The next n rows of a tensor: elements [n][dims[0]]. */
qsa_status checkpoint_rows(checkpoint *file, const checkpoint_tensor *tensor, const float *elements, int64_t n);
/* Pads to where the next tensor begins. */
qsa_status checkpoint_end_tensor(checkpoint *file);

/* With QSA_OK the file gets its name, replacing what has it; otherwise it is removed. Returns status, or why not. */
qsa_status checkpoint_close(checkpoint *file, qsa_status status);

#endif
