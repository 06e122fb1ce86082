/* SPDX-License-Identifier: Apache-2.0 */
#include "file/gguf_file.h"
#include "file/gguf_shard.h"

#include <assert.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SAMPLES = 4, SAMPLE_BYTES = 4096, WHOLE_BYTES = SAMPLES * SAMPLE_BYTES };

/* The file's length, and its header (keys and tensor infos) byte for byte. */
static void add_header(XXH3_state_t *hash, const gguf_shard *shard)
{
    const uint64_t bytes = shard->bytes;
    const size_t header = shard->head.data_offset;
    XXH3_64bits_update(hash, &bytes, sizeof bytes);
    XXH3_64bits_update(hash, shard->data, header < shard->bytes ? header : shard->bytes);
}

/* SAMPLES pieces, evenly spaced from the first byte to the last; a small tensor in full. */
static void add_tensor(XXH3_state_t *hash, const gguf_file_tensor *tensor)
{
    assert(tensor->data != NULL);
    const uint8_t *data = tensor->data;
    if (tensor->bytes <= WHOLE_BYTES) {
        XXH3_64bits_update(hash, data, tensor->bytes);
        return;
    }
    const size_t step = (tensor->bytes - SAMPLE_BYTES) / (SAMPLES - 1);
    for (size_t i = 0; i < SAMPLES; i++) {
        const size_t at = i + 1 < SAMPLES ? i * step : tensor->bytes - SAMPLE_BYTES;
        XXH3_64bits_update(hash, data + at, SAMPLE_BYTES);
    }
}

uint64_t gguf_file_digest(const gguf_file *file)
{
    assert(file != NULL && file->shard_count > 0);
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    for (uint32_t i = 0; i < file->shard_count; i++)
        add_header(&hash, &file->shards[i]);
    for (size_t i = 0; i < file->tensor_count; i++)
        add_tensor(&hash, &file->tensors[i]);
    return XXH3_64bits_digest(&hash);
}
