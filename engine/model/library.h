/* SPDX-License-Identifier: Apache-2.0 */
/* ggml, set up so that bits do not depend on the batch. */
#ifndef QSA_ENGINE_MODEL_LIBRARY_H
#define QSA_ENGINE_MODEL_LIBRARY_H

#include <ggml.h>
#include <qsa/status.h>

/* Before any other use of ggml; later calls do nothing. Silences its log, and switches off its tiled products, whose
 * bits depend on the number of columns (they would make prompts of K-quants three times as fast). */
void matrix_library_init(void);

/* weights {n, m} times x [n, tokens] = [m, tokens]; x contiguous. A token's result is the same bits whatever the other
 * tokens are. */
struct ggml_tensor *matrix_product(struct ggml_context *context, struct ggml_tensor *weights, struct ggml_tensor *x);

#endif
