/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 with 64 bits, streaming. */
#ifndef QSA_BASE_HASH_H
#define QSA_BASE_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef XXH3_state_t qsa_hash;

void qsa_hash_begin(qsa_hash *hash);
void qsa_hash_add(qsa_hash *hash, const void *bytes, size_t size);
uint64_t qsa_hash_end(const qsa_hash *hash);

#endif
