/* SPDX-License-Identifier: Apache-2.0 */
/* The default allocator, and calls to the host's. */
#if defined(__linux__)
#define _GNU_SOURCE /* madvise */
#endif
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
enum { HUGE_PAGE_BYTES = 2 * 1024 * 1024 };
#endif

static void *default_allocate(void *context, size_t size_bytes, size_t alignment)
{
    (void)context;
#if defined(__linux__)
    if (size_bytes >= 4 * (size_t)HUGE_PAGE_BYTES)
        alignment = HUGE_PAGE_BYTES;
#endif
    if (size_bytes > SIZE_MAX - alignment)
        return NULL;
    size_t rounded = (size_bytes + alignment - 1) / alignment * alignment; /* aligned_alloc needs a multiple */
    void *memory = aligned_alloc(alignment, rounded);
#if defined(__linux__)
    if (memory != NULL && alignment == HUGE_PAGE_BYTES)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); /* K and V are read at random: fewer TLB misses, same result */
#endif
    return memory;
}

static void default_release(void *context, void *memory, size_t size_bytes)
{
    (void)context;
    (void)size_bytes;
    free(memory);
}

const qsa_allocator qsa_default_allocator = {default_allocate, default_release, NULL};

void *qsa_allocate(const qsa_allocator *allocator, uint64_t size_bytes)
{
    assert(allocator != NULL && allocator->allocate != NULL && allocator->release != NULL);
    if (size_bytes > SIZE_MAX / 2)
        return NULL;
    return allocator->allocate(allocator->context, size_bytes == 0 ? QSA_ALIGNMENT : (size_t)size_bytes, QSA_ALIGNMENT);
}

void qsa_release(const qsa_allocator *allocator, void *memory, uint64_t size_bytes)
{
    assert(allocator != NULL && allocator->release != NULL);
    if (memory != NULL)
        allocator->release(allocator->context, memory, size_bytes == 0 ? QSA_ALIGNMENT : (size_t)size_bytes);
}
