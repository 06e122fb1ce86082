/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation through the host's allocator. */
#ifndef QSA_BASE_MEMORY_H
#define QSA_BASE_MEMORY_H

#include <qsa/config.h>

enum { QSA_ALIGNMENT = 64 }; /* a cache line, and the widest vector */

/* The C library's allocator; requests huge pages where the system has them. */
extern const qsa_allocator qsa_default_allocator;

/* NULL if the allocator fails; size 0 is legal and returns a pointer that must be released. */
void *qsa_allocate(const qsa_allocator *allocator, uint64_t size_bytes);
void qsa_release(const qsa_allocator *allocator, void *memory, uint64_t size_bytes);

#endif
