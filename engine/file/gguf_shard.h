/* SPDX-License-Identifier: Apache-2.0 */
/* One GGUF file of the one or many that a gguf_file consists of. Inside engine/file only. */
#ifndef QSA_ENGINE_GGUF_SHARD_H
#define QSA_ENGINE_GGUF_SHARD_H

#include "file/gguf_file.h"
#include <gguf.h>

typedef struct gguf_shard {
    char *name;          /* path, or what stands for it in messages */
    const uint8_t *data; /* the whole file */
    size_t bytes;
    bool mapped;               /* data is ours to unmap */
    struct gguf_context *gguf; /* keys and tensor infos, as ggml's reader keeps them */
} gguf_shard;

struct gguf_file {
    gguf_shard *shards; /* [shard_count], at least one; the first has the keys */
    uint32_t shard_count;
    gguf_file_tensor *tensors; /* [tensor_count], ascending by name, no name twice */
    size_t tensor_count;
};

/* Maps and reads; on failure the shard is empty, which gguf_shard_close takes too. */
qsa_status gguf_shard_open(gguf_shard *shard, const char *path);
qsa_status gguf_shard_open_memory(gguf_shard *shard, const char *name, const void *data, size_t size_bytes);
void gguf_shard_close(gguf_shard *shard);

size_t gguf_shard_tensor_count(const gguf_shard *shard);

/* Tensor i of the file, after checking its type and that it lies inside the file. out_tensor->shard is 0. */
qsa_status gguf_shard_tensor(const gguf_shard *shard, size_t i, gguf_file_tensor *out_tensor);

/* As gguf_file_u32, of this shard. */
bool gguf_shard_has(const gguf_shard *shard, const char *key);
qsa_status gguf_shard_u32(const gguf_shard *shard, const char *key, uint32_t *out_value);

#endif
