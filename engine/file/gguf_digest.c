/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* pread */
#include "base/error.h"
#include "file/digest_cache.h"
#include "file/gguf_file.h"
#include "file/gguf_shard.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PIECE_BYTES = 1 << 20 };

/* Read, not through the mapping: a file cut short meanwhile is an error and no signal. */
static qsa_status hash_file(const gguf_shard *shard, void *piece, uint64_t *out_digest)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (uint64_t at = 0; at < shard->bytes;) {
        const uint64_t left = shard->bytes - at;
        const ssize_t n = pread(shard->descriptor, piece, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return engine_fail(QSA_E_IO, "%s: %s", shard->name,
                               n < 0 ? strerror(errno) : "was cut short while it was open");
        XXH3_64bits_update(&state, piece, (size_t)n);
        at += (uint64_t)n;
    }
    *out_digest = XXH3_64bits_digest(&state);
    return QSA_OK;
}

static qsa_status hash_anew(const gguf_shard *shard, uint64_t *out_digest)
{
    void *piece = malloc(PIECE_BYTES);
    if (piece == NULL)
        return engine_fail(QSA_E_MEMORY, "%s: no memory for a digest", shard->name);
    const qsa_status status = hash_file(shard, piece, out_digest);
    free(piece);
    return status;
}

/* What is known of the file as it is now, or its hash; kept in the shard, and in the cache if the file did not change
 * while it was read. */
static qsa_status digest_shard(gguf_shard *shard, uint64_t *out_digest)
{
    digest_key before = {0}, after = {0};
    if (!shard->mapped) {
        *out_digest = XXH3_64bits(shard->data, shard->bytes);
        return QSA_OK;
    }
    const bool is_named = digest_key_of(shard->descriptor, &before);
    const bool is_known = is_named && shard->has_digest && memcmp(&before, &shard->digest_key, sizeof before) == 0;
    if (!is_known && (!is_named || !digest_cache_find(&before, &shard->digest))) {
        shard->has_digest = false;
        ENGINE_TRY(hash_anew(shard, &shard->digest));
        if (is_named && digest_key_is_settled(&before) && digest_key_of(shard->descriptor, &after) &&
            memcmp(&before, &after, sizeof before) == 0)
            digest_cache_keep(&before, shard->digest);
    }
    shard->digest_key = before;
    shard->has_digest = is_named && digest_key_is_settled(&before);
    *out_digest = shard->digest;
    return QSA_OK;
}

qsa_status gguf_file_digest(const gguf_file *file, uint64_t *out_digest)
{
    assert(file != NULL && file->shard_count > 0 && out_digest != NULL);
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    XXH3_state_t all;
    XXH3_64bits_reset(&all);
    qsa_status status = QSA_OK;
    pthread_mutex_lock(&one_at_a_time);
    for (uint32_t i = 0; status == QSA_OK && i < file->shard_count; i++) {
        uint64_t digest = 0;
        status = digest_shard(&file->shards[i], &digest);
        XXH3_64bits_update(&all, &digest, sizeof digest);
    }
    pthread_mutex_unlock(&one_at_a_time);
    if (status == QSA_OK)
        *out_digest = XXH3_64bits_digest(&all);
    return status;
}
