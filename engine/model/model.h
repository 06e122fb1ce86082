/* SPDX-License-Identifier: Apache-2.0 */
/* An open model: its file, shape, tensors and tokenizer. Read-only once open; any number of contexts and threads may
 * use it at once. */
#ifndef QSA_ENGINE_MODEL_MODEL_H
#define QSA_ENGINE_MODEL_MODEL_H

#include "model/left_out.h"
#include "model/shape.h"
#include "model/weights.h"
#include "text/tokenizer.h"

struct qsa_model {
    gguf_file *file;
    qsa_weight_storage storage;
    model_shape shape;
    model_weights weights;
    uint64_t weight_bytes[QSA_WEIGHT_KIND_COUNT]; /* used in place */
    uint64_t taken_bytes;                         /* of them: loaded or locked */
    bool maps_embedding, maps_table;              /* their rows are fetched from the file */
    left_out left_out;
    qsa_sampler_options sampling; /* that the file recommends */
    bool recommends_sampling;
    tokenizer *tokens;
    qsa_model_info info;
};

#endif
