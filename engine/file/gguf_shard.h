/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a gguf_file: each is one GGUF file. Internal to engine/file. */
#ifndef QSA_ENGINE_GGUF_SHARD_H
#define QSA_ENGINE_GGUF_SHARD_H

#include "file/digest_cache.h"
#include "file/gguf_head.h"

#include <qsa/status.h>
#include <stdbool.h>

typedef struct gguf_shard {
    char *name;          /* path, or the name given for memory */
    const uint8_t *data; /* the whole file */
    size_t bytes;
    bool mapped;    /* data is a mapping of the open file `descriptor`; both are ours */
    int descriptor; /* undefined if not mapped */
    gguf_head head;
    bool has_digest; /* owned by gguf_digest.c: the digest of the file when it had that key */
    digest_key digest_key;
    uint64_t digest;
} gguf_shard;

struct gguf_file {
    gguf_shard *shards; /* [shard_count], at least one; keys are read from the first */
    uint32_t shard_count;
    gguf_file_tensor *tensors; /* [tensor_count], ascending by name, names unique */
    size_t tensor_count;
    uint8_t *loaded; /* [loaded_bytes], mapped anonymously: tensors that are read, not mapped; NULL: none */
    size_t loaded_bytes;
};

/* Maps the file and parses its header. On failure the shard is empty; closing it again is legal. Errors: as
 * gguf_file_open. */
qsa_status gguf_shard_open(gguf_shard *shard, const char *path);
qsa_status gguf_shard_open_memory(gguf_shard *shard, const char *name, const void *data, size_t size_bytes);
void gguf_shard_close(gguf_shard *shard);

size_t gguf_shard_tensor_count(const gguf_shard *shard);

/* Tensor i < gguf_shard_tensor_count. Checks that its type converts to f32, that its rows are whole blocks, that its
 * data lies inside the file, and at *offset: right behind the tensor before. Moves that on to the next tensor. Sets
 * out_tensor->shard to 0. Errors: QSA_E_FORMAT, QSA_E_UNSUPPORTED. */
qsa_status gguf_shard_tensor(const gguf_shard *shard, size_t i, uint64_t *offset, gguf_file_tensor *out_tensor);

#endif
