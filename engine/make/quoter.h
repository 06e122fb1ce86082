/* SPDX-License-Identifier: Apache-2.0 */
/* The quoter: a qwen4exp checkpoint whose weights are constructed, not trained.
 *
 * It is an induction head: it continues text with the byte that followed the longest earlier match of the last bytes.
 * The delta nets carry those bytes from token to token, the indexer selects the group that followed the same bytes,
 * attention copies the byte after them, and the experts move it to the output. So it is right only if every part of the
 * engine works. If the same bytes occur twice in a text, it may continue either occurrence. */
#ifndef QSA_ENGINE_MAKE_QUOTER_H
#define QSA_ENGINE_MAKE_QUOTER_H

#include <qsa/status.h>

/* Incremented whenever quoter_write writes other bytes for the same options. */
enum { QUOTER_VERSION = 3 };

/* XXH3 of the file that quoter_write writes for the default options: a cached file with another hash is damaged. */
#define QUOTER_DEFAULT_HASH UINT64_C(0x62DB53E8C77D1A8E)

/* The type of all matrices. Norms, convolutions, router, decay and matrices of at most 32 rows or columns stay f32.
 * Matrices whose rows are not a multiple of the type's block (32 for q8_0, 256 for q4_K and q6_K) become f16. */
typedef enum quoter_type {
    QUOTER_F32,
    QUOTER_BF16,
    QUOTER_Q8_0,
    QUOTER_Q4_K,
    QUOTER_Q6_K,
    QUOTER_TYPE_COUNT
} quoter_type;

/* Everything else is derived from these. */
typedef struct quoter_options {
    quoter_type type;       /* default QUOTER_BF16 */
    uint64_t seed;          /* of codes and projections; default 2 */
    uint32_t blocks;        /* of three delta nets and one QSA layer, 1 .. 6; each adds 9 bytes of context; default 2 */
    uint32_t code_dims;     /* dimensions of a byte's code, 32, 48 or 64; default 48 */
    uint32_t head_dim;      /* of the attention, a multiple of 32, 64 .. 512; default 256 */
    uint32_t index_dim;     /* of the indexer, a multiple of 32, 64 .. 512; default 128 */
    uint32_t rotary_dims;   /* even, 2 .. min(head_dim, index_dim) / 2; default 32 */
    uint32_t budget_tokens; /* a multiple of ratio, 1 .. 65,536; default 2,048 */
    uint32_t ratio;         /* tokens per group, a power of two, 1 .. 64; default 4 */
    uint32_t expert_width;  /* a multiple of 32, code_dims / 2 .. 1,024; default 32 */
    uint32_t context_tokens; /* 1 .. 2^24; default 262,144 */
} quoter_options;

void quoter_options_init(quoter_options *options);

/* A small quoter for tests: one block, code 32, head_dim 128, index_dim 64, rotary 16, budget 64 tokens, context 8,192.
 * With this budget it answers correctly about ledgers of up to 2,000 bytes. */
void quoter_options_small(quoter_options *options);

/* How many of the last bytes the model matches: 9 per block. */
uint32_t quoter_context_bytes(const quoter_options *options);

/* Writes the checkpoint as one GGUF file: the same bytes for the same options. The file gets its name only when it is
 * complete, and replaces any file of that name. Errors: QSA_E_ARGUMENT (names the option), QSA_E_MEMORY, QSA_E_IO. */
qsa_status quoter_write(const char *path, const quoter_options *options);

#endif
