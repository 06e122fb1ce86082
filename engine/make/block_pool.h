/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised random numbers to pick from. Quantising takes ggml up to a microsecond per weight; the weights of a random
 * model need not all be different, and picks from a pool have the layout, the size and the speed of any others. */
#ifndef QSA_ENGINE_MAKE_BLOCK_POOL_H
#define QSA_ENGINE_MAKE_BLOCK_POOL_H

#include <ggml.h>
#include <qsa/status.h>

enum { POOL_PIECE = 256, POOL_PIECES = 256, POOL_WEIGHTS = POOL_PIECE * POOL_PIECES };

typedef struct block_pool {
    enum ggml_type type;
    size_t piece_bytes;    /* of POOL_PIECE weights, a whole number of blocks in every type */
    unsigned char *pieces; /* [POOL_PIECES][piece_bytes] */
} block_pool;

/* weights [POOL_WEIGHTS]. Release also after a failure. Errors: QSA_E_MEMORY. */
qsa_status block_pool_fill(block_pool *pool, enum ggml_type type, const float *weights);
void block_pool_release(block_pool *pool);

/* Writes n pieces to out, each picked by a random number of stream `stream` from number `first` on. */
void block_pool_pick(const block_pool *pool, uint64_t seed, uint64_t stream, uint64_t first, size_t n, void *out);

#endif
