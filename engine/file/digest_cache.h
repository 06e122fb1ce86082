/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of whole files, remembered beside what the file system says of the file, so that a file is hashed once. A
 * lost, damaged or unwritable cache only costs time.
 *
 * The key has the time of the last change of the inode, which no program can set: an edit is seen even if it leaves
 * length and modification time as they were. Internal to engine/file. */
#ifndef QSA_ENGINE_DIGEST_CACHE_H
#define QSA_ENGINE_DIGEST_CACHE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct digest_key {
    uint64_t device, inode, size_bytes;
    uint64_t modified_s, modified_ns, changed_s, changed_ns;
} digest_key;

/* The key of an open file; false if the system does not tell. */
bool digest_key_of(int descriptor, digest_key *out_key);

/* Whether the file last changed so long ago that a later change has another time. */
bool digest_key_is_settled(const digest_key *key);

bool digest_cache_find(const digest_key *key, uint64_t *out_digest);
void digest_cache_keep(const digest_key *key, uint64_t digest);

#endif
