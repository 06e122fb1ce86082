/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of this room share: the limits on a GGUF file, and the description of a tensor. */
#ifndef QSA_ENGINE_GGUF_TYPES_H
#define QSA_ENGINE_GGUF_TYPES_H

#include <ggml.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gguf_file gguf_file;

/* A file beyond a limit is refused, and the message names the limit. They bound the memory that a hostile file can make
 * us allocate. */
enum {
    GGUF_FILE_MAX_KEYS = 1 << 16,
    GGUF_FILE_MAX_TENSORS = 1 << 18,      /* per shard */
    GGUF_FILE_MAX_STRINGS = 1 << 22,      /* per shard, summed over all string arrays */
    GGUF_FILE_MAX_HEADER_BYTES = 1 << 28, /* per shard: keys and tensor infos */
    GGUF_FILE_MIN_ALIGNMENT = 32          /* of tensor data: ggml's kernels require it of weights used in place */
};

typedef struct gguf_file_tensor {
    const char *name;
    enum ggml_type type;
    int64_t dims[GGML_MAX_DIMS]; /* fastest first, all >= 1; 1 for dimensions the file does not list */
    const void *data;            /* in the mapping, aligned to GGUF_FILE_MIN_ALIGNMENT */
    size_t bytes;
    uint32_t shard; /* from 0 */
} gguf_file_tensor;

#endif
