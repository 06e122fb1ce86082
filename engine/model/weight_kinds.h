/* SPDX-License-Identifier: Apache-2.0 */
/* What each tensor of a file is for, by its name, and how often its pages are read. */
#ifndef QSA_ENGINE_MODEL_WEIGHT_KINDS_H
#define QSA_ENGINE_MODEL_WEIGHT_KINDS_H

#include "model/shape.h"

#include <qsa_engine.h>

qsa_weight_kind weight_kind_of(const gguf_file *file, const model_shape *shape, const char *name);

/* Whether every token may read any page of it. The embedding and the n-gram table are read a few rows per token. */
bool weight_kind_is_resident(qsa_weight_kind kind);

/* Whether binding dequantises the matrix. Vectors of other types are copied as well, but are small. */
bool weight_is_copied(const gguf_file_tensor *tensor, qsa_weight_storage storage);

/* The bytes of the tensors that are used in place; copies are counted by model_weights_bind. */
void weight_kinds_count(const gguf_file *file, const model_shape *shape, qsa_weight_storage storage,
                        uint64_t out_bytes[QSA_WEIGHT_KIND_COUNT]);

#endif
