/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this build of ggml, on this machine, keeps the promise that a token's bits do not depend on its batch. */
#ifndef QSA_ENGINE_MODEL_BATCH_CHECK_H
#define QSA_ENGINE_MODEL_BATCH_CHECK_H

#include <ggml.h>
#include <qsa/status.h>

/* For each type and inner length among the matrices of the context: multiplies the first rows of one matrix, and random
 * rows of its kind, in a graph and as lone products, by the same columns in batches of several sizes, and compares
 * bits. A few milliseconds for each. out_least_columns [GGML_TYPE_COUNT]: 1 where fewer than LEAST_COLUMNS have the
 * same bits too, otherwise LEAST_COLUMNS. Errors: QSA_E_UNSUPPORTED naming the type, QSA_E_NONFINITE naming the matrix,
 * QSA_E_MEMORY. */
qsa_status batch_check(struct ggml_context *weights, int64_t *out_least_columns);

#endif
