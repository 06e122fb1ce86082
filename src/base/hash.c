/* SPDX-License-Identifier: Apache-2.0 */
/* The one translation unit with the body of XXH3. */
#include "base/hash.h"

void qsa_hash_begin(qsa_hash *hash)
{
    XXH3_64bits_reset(hash);
}

void qsa_hash_add(qsa_hash *hash, const void *bytes, size_t size)
{
    if (size > 0)
        XXH3_64bits_update(hash, bytes, size);
}

uint64_t qsa_hash_end(const qsa_hash *hash)
{
    return XXH3_64bits_digest(hash);
}
