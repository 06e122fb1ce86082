/* SPDX-License-Identifier: Apache-2.0 */
#include "make/block_pool.h"

#include "base/error.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

qsa_status block_pool_fill(block_pool *pool, enum ggml_type type, const float *weights)
{
    assert(POOL_PIECE % ggml_blck_size(type) == 0);
    *pool = (block_pool){.type = type, .piece_bytes = ggml_row_size(type, POOL_PIECE)};
    pool->pieces = malloc(POOL_PIECES * pool->piece_bytes);
    if (!pool->pieces)
        return engine_fail(QSA_E_MEMORY, "no memory for quantised weights");
    ggml_quantize_chunk(type, weights, pool->pieces, 0, POOL_PIECES, POOL_PIECE, NULL);
    return QSA_OK;
}

void block_pool_release(block_pool *pool)
{
    free(pool->pieces);
    *pool = (block_pool){0};
}

void block_pool_pick(const block_pool *pool, uint64_t seed, uint64_t stream, uint64_t first, size_t n, void *out)
{
    unsigned char *to = out;
    for (size_t i = 0; i < n; i++, to += pool->piece_bytes) {
        const size_t piece = random_value(seed, stream, first + i) % POOL_PIECES;
        memcpy(to, pool->pieces + piece * pool->piece_bytes, pool->piece_bytes);
    }
}
