/* SPDX-License-Identifier: Apache-2.0 */
/* Products with the matrices of many experts, each token with those it chose.
 *
 * A pair is a token with one of its experts: pair token * used + rank. Pairs are put in the order of their experts, so
 * that all tokens of an expert are neighbouring columns of one product. What an expert says of a token does not depend
 * on how many others chose it. */
#ifndef QSA_ENGINE_MODEL_GROUPED_H
#define QSA_ENGINE_MODEL_GROUPED_H

#include "model/builder.h"

/* Products that one grouping serves, at most. */
enum { GROUPED_PRODUCTS = 3 };

/* chosen i32 [used, tokens], each below `experts`. The result is i32: grouping_of says what. */
struct ggml_tensor *group_pairs(graph_builder *b, struct ggml_tensor *chosen, uint32_t experts);

typedef struct grouping {
    const int32_t *first; /* [experts + 1]: expert e has the places first[e] .. first[e + 1] - 1 */
    const int32_t *pair;  /* [pairs] at each place */
    const int32_t *place; /* [pairs] of each pair */
} grouping;

grouping grouping_of(const struct ggml_tensor *groups);

/* Columns as a product with `weights` takes them, at every place. group_columns: that of the pair's token in x [n,
 * tokens]. swiglu_columns: silu(gate) * up of gate and up [n, pairs], which are in order of places; up NULL: gate is [2
 * n, pairs], and its second half is up. */
struct ggml_tensor *group_columns(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *x,
                                  struct ggml_tensor *groups);
struct ggml_tensor *swiglu_columns(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *gate,
                                   struct ggml_tensor *up);

/* weights {n, m, experts} times columns: [m, pairs], in order of places. number: of the product, each once for a
 * grouping. */
struct ggml_tensor *grouped_product(graph_builder *b, struct ggml_tensor *weights, struct ggml_tensor *columns,
                                    struct ggml_tensor *groups, uint32_t number);

#endif
