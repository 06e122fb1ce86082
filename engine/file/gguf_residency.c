/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* madvise, MAP_ANONYMOUS */
#include "file/gguf_residency.h"

#include "base/error.h"
#include "file/gguf_shard.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- read into memory ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + GGUF_FILE_MIN_ALIGNMENT - 1) / GGUF_FILE_MIN_ALIGNMENT * GGUF_FILE_MIN_ALIGNMENT;
}

static qsa_status read_tensor(const gguf_shard *shard, const gguf_file_tensor *tensor, uint8_t *to)
{
    const uint64_t start = (uint64_t)((const uint8_t *)tensor->data - shard->data);
    for (size_t at = 0; at < tensor->bytes;) {
        const ssize_t n = pread(shard->descriptor, to + at, tensor->bytes - at, (off_t)(start + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return engine_fail(QSA_E_IO, "%s: tensor '%s': %s", shard->name, tensor->name,
                               n < 0 ? strerror(errno) : "the file was cut short while it was read");
        at += (size_t)n;
    }
    return QSA_OK;
}

/* The tensors are pointed at what was read only once all of it has been. */
static qsa_status fill(gguf_file *file, gguf_choice *choice, const void *user)
{
    size_t used = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const gguf_file_tensor *t = &file->tensors[i];
        if (!choice(user, t))
            continue;
        ENGINE_TRY(read_tensor(&file->shards[t->shard], t, file->loaded + used));
        used += aligned(t->bytes);
    }
    for (size_t i = 0, at = 0; i < file->tensor_count; i++) {
        gguf_file_tensor *t = &file->tensors[i];
        if (choice(user, t)) {
            t->data = file->loaded + at;
            at += aligned(t->bytes);
        }
    }
    assert(used <= file->loaded_bytes);
    return QSA_OK;
}

qsa_status gguf_file_load(gguf_file *file, gguf_choice *choice, const void *user, uint64_t *out_bytes)
{
    assert(file->loaded == NULL && file->shards[0].mapped);
    size_t bytes = 0;
    for (size_t i = 0; i < file->tensor_count; i++)
        bytes += choice(user, &file->tensors[i]) ? aligned(file->tensors[i].bytes) : 0;
    *out_bytes = bytes;
    if (bytes == 0)
        return QSA_OK;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return engine_fail(QSA_E_MEMORY, "%s: no memory for %zu bytes of weights", file->shards[0].name, bytes);
    file->loaded = memory;
    file->loaded_bytes = bytes;
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* fewer misses of the TLB; without them it works, too */
    return fill(file, choice, user);
}

/* ---- mapped ---- */

/* The pages that hold the tensor. */
static void *pages_of(const gguf_file_tensor *tensor, size_t *out_bytes)
{
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)tensor->data;
    const uintptr_t page = at & ~(page_bytes - 1);
    *out_bytes = at + tensor->bytes - page;
    return (void *)page;
}

qsa_status gguf_file_lock(gguf_file *file, gguf_choice *choice, const void *user, uint64_t *out_bytes)
{
    uint64_t locked = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        size_t bytes;
        void *pages = pages_of(&file->tensors[i], &bytes);
        if (!choice(user, &file->tensors[i]))
            continue;
        if (mlock(pages, bytes) != 0) {
            struct rlimit limit = {0};
            (void)getrlimit(RLIMIT_MEMLOCK, &limit);
            return engine_fail(
                QSA_E_MEMORY, "%s: cannot lock tensor '%s' after %" PRIu64 " bytes: %s (ulimit -l: %" PRIu64 " bytes)",
                file->shards[0].name, file->tensors[i].name, locked, strerror(errno), (uint64_t)limit.rlim_cur);
        }
        locked += file->tensors[i].bytes;
    }
    *out_bytes = locked;
    return QSA_OK;
}

void gguf_file_scatter(gguf_file *file, gguf_choice *choice, const void *user)
{
    for (size_t i = 0; i < file->tensor_count; i++) {
        size_t bytes;
        void *pages = pages_of(&file->tensors[i], &bytes);
        if (choice(user, &file->tensors[i]))
            (void)madvise(pages, bytes, MADV_RANDOM);
    }
}

const char *gguf_file_mapped_at(const gguf_file *file, const void *address)
{
    for (uint32_t i = 0; i < file->shard_count; i++) {
        const gguf_shard *s = &file->shards[i];
        if (s->mapped && (const uint8_t *)address >= s->data && (const uint8_t *)address < s->data + s->bytes)
            return s->name;
    }
    return NULL;
}
