/* SPDX-License-Identifier: Apache-2.0 */
/* Single sub-layers of the forward pass: a pass with memory for them, and matrices of random numbers. */
#ifndef PASS_FIXTURE_H
#define PASS_FIXTURE_H

#include "support.h"

#include "model/pass.h"

/* A pass of so many tokens of one session: x, y, residual, gains and the given bytes for blocks and scratch. */
typedef struct pass_fixture {
    pass pass;
    batch_segment segment;
    model_weights weights;
    void *arrays;
} pass_fixture;

pass_fixture *pass_new(const model_shape *shape, layer_weights *layer, size_t tokens, size_t blocks_bytes,
                       size_t scratch_bytes);
void pass_free(pass_fixture *f);

/* Stops the workers and starts others. */
void pass_threads(pass_fixture *f, uint32_t threads);

/* A matrix {inner, rows} of that type of numbers within `size`; count: of so many experts, one after the other. Free
 * with matrix_free. */
qsa_weights matrix_new(enum ggml_type type, uint64_t stream, size_t inner, size_t rows, size_t count, float size);
void matrix_free(qsa_weights *matrix);

#endif
