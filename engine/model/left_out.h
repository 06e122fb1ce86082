/* SPDX-License-Identifier: Apache-2.0 */
/* What of a file the engine does not read. Each tensor and key is read, or is on a list of what cannot change a result,
 * with the reason; any other refuses the file by its name. */
#ifndef QSA_ENGINE_MODEL_LEFT_OUT_H
#define QSA_ENGINE_MODEL_LEFT_OUT_H

#include "model/shape.h"

#include <qsa_engine.h>

typedef struct left_out {
    qsa_left_out *items; /* [count]: tensors, then keys, each in the order of their names in the file */
    size_t count;
} left_out;

/* bound [gguf_file_tensor_count]: the tensors that are read. Errors: QSA_E_UNSUPPORTED (a tensor or key that is not
 * known, or a key whose value asks for something else than the engine does; by name), QSA_E_MEMORY. */
qsa_status left_out_collect(const gguf_file *file, const model_shape *shape, const bool *bound, left_out *out);
void left_out_free(left_out *list);

#endif
