/* SPDX-License-Identifier: Apache-2.0 */
/* The quoter: a qwen4exp checkpoint whose weights are constructed, not trained.
 *
 * It continues text with the byte that followed the longest earlier match of the last bytes. The delta nets carry those
 * bytes from token to token, the indexer finds the group of tokens that followed the same bytes, the attention copies
 * the byte after them, and the experts carry it to the output: it quotes right only if every part works. Where the same
 * bytes occur twice in a text, either place may be quoted. */
#ifndef QSA_ENGINE_MAKE_QUOTER_H
#define QSA_ENGINE_MAKE_QUOTER_H

#include <qsa/status.h>

/* Changes whenever the bytes that quoter_write makes of the same options change. */
enum { QUOTER_VERSION = 3 };

/* XXH3 of the file that quoter_write makes of the default options: a cached file that differs is damaged. */
#define QUOTER_DEFAULT_HASH UINT64_C(0x62DB53E8C77D1A8E)

/* The type of all matrices. Norms, convolutions, router, decay and matrices of at most 32 rows or columns stay f32, and
 * rows that are no multiple of the type's block (32 for q8_0, 256 for q4_K and q6_K) become f16. */
typedef enum quoter_type {
    QUOTER_F32,
    QUOTER_BF16,
    QUOTER_Q8_0,
    QUOTER_Q4_K,
    QUOTER_Q6_K,
    QUOTER_TYPE_COUNT
} quoter_type;

/* The free choices; everything else follows from them. */
typedef struct quoter_options {
    quoter_type type;   /* default QUOTER_BF16 */
    uint64_t seed;      /* of codes and projections; default 2 */
    uint32_t blocks;    /* of three delta nets and one QSA layer, 1 .. 6; a block adds 9 bytes of context; default 2 */
    uint32_t code_dims; /* dimensions of a byte's code, 32, 48 or 64; default 48 */
    uint32_t head_dim;  /* of the attention, a multiple of 32, 64 .. 512; default 256 */
    uint32_t index_dim; /* of the indexer, a multiple of 32, 64 .. 512; default 128 */
    uint32_t rotary_dims;    /* even, 2 .. half of the smaller of both; default 32 */
    uint32_t budget_tokens;  /* a multiple of ratio, 1 .. 65,536; default 2,048 */
    uint32_t ratio;          /* tokens of a group, a power of two, 1 .. 64; default 4 */
    uint32_t expert_width;   /* a multiple of 32, code_dims / 2 .. 1,024; default 32 */
    uint32_t context_tokens; /* 1 .. 2^24; default 262,144 */
} quoter_options;

void quoter_options_init(quoter_options *options);

/* The same construction for tests: one block, code 32, head_dim 128, index_dim 64, rotary 16, budget 64 tokens, context
 * 8,192. With so small a budget it answers right about ledgers of up to 2,000 bytes. */
void quoter_options_small(quoter_options *options);

/* How many of the last bytes the model matches: 9 for each block. */
uint32_t quoter_context_bytes(const quoter_options *options);

/* Writes the checkpoint as one GGUF file: the same bytes for the same options. The file appears under its name only
 * when it is complete; a file that was there is replaced. Errors: QSA_E_ARGUMENT (an option, by name), QSA_E_MEMORY,
 * QSA_E_IO. */
qsa_status quoter_write(const char *path, const quoter_options *options);

#endif
