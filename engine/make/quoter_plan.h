/* SPDX-License-Identifier: Apache-2.0 */
/* The shape derived from the options, the layout of the residual stream, and the list of tensors.
 *
 * Residual: slots P0 .. Pj of code_dims dimensions each (the code of the current byte, of the byte before it, ...),
 * then the answer slot A, which attention writes, the output slot O, which the experts write and the output matrix
 * reads, and 16 dimensions that are always 1. */
#ifndef QSA_ENGINE_MAKE_QUOTER_PLAN_H
#define QSA_ENGINE_MAKE_QUOTER_PLAN_H

#include "make/checkpoint.h"
#include "make/quoter.h"

#include <stdbool.h>

enum {
    /* 256 bytes; one merge, of two bytes that never occur in UTF-8 (some loaders refuse an empty merge list); end of
     * text; padding. */
    QUOTER_TOKEN_MERGED = 256,
    QUOTER_TOKEN_END,
    QUOTER_TOKEN_PADDING,
    QUOTER_VOCABULARY,

    QUOTER_BLOCK_LAYERS = 4, /* three delta nets, one QSA layer */
    QUOTER_BLOCK_BYTES = 9,  /* three per delta net */
    QUOTER_MAX_BLOCKS = 6,
    QUOTER_CONSTANT_DIMS = 16,
    QUOTER_STREAMS = 4,
    QUOTER_LOW_RANK = 32, /* ggml's tiled products need multiples of 16; 8 made prompts a quarter slower */
    QUOTER_Q_HEADS = 4,
    QUOTER_KV_HEADS = 2,
    QUOTER_INDEX_HEADS = 4,
    QUOTER_STATE_K_HEADS = 2,
    QUOTER_STATE_V_HEADS = 4,
    QUOTER_CONVOLUTION = 4,
    QUOTER_EXPERTS = 2,
    QUOTER_EXPERTS_USED = 1,
};

typedef struct quoter_plan {
    quoter_options options;
    uint32_t layers;
    uint32_t embedding;
    uint32_t answer, output, constant; /* first dimension of A, of O and of the ones; slot j begins at j * code_dims */
    uint32_t state_dim;                /* of a delta net's head: at least two codes */
    float *codes;                      /* [QUOTER_VOCABULARY][code_dims], each +1 or -1 */
} quoter_plan;

/* Checks the options and derives the rest. Release also after a failure. Errors: QSA_E_ARGUMENT (names the option),
 * QSA_E_MEMORY. */
qsa_status quoter_plan_init(quoter_plan *plan, const quoter_options *options);
void quoter_plan_release(quoter_plan *plan);

/* Fills in the nonzero elements of a tensor; weights is zeroed by the caller. */
typedef void quoter_fill(const quoter_plan *plan, uint32_t layer, float *weights);

typedef struct quoter_tensor {
    checkpoint_tensor shape;
    uint32_t layer;
    quoter_fill *fill; /* NULL: all zeros */
} quoter_tensor;

enum { QUOTER_MAX_TENSORS = 3 + 2 + QUOTER_MAX_BLOCKS * QUOTER_BLOCK_LAYERS * 32 };

/* Writes the tensors in file order to tensors [QUOTER_MAX_TENSORS]; returns how many. */
size_t quoter_list_tensors(const quoter_plan *plan, quoter_tensor *tensors);

#endif
