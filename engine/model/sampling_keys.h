/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling that a file recommends: its general.sampling.* keys, as llama.cpp's converter writes them. */
#ifndef QSA_ENGINE_MODEL_SAMPLING_KEYS_H
#define QSA_ENGINE_MODEL_SAMPLING_KEYS_H

#include "file/gguf_file.h"

#include <qsa_engine.h>

/* The defaults with what the file recommends in their place; *out_any: whether it recommends anything. A
 * value below 0 is what converters write for greedy (temp), all tokens (top_k, penalty_last_n) or none (the others).
 * Errors: QSA_E_FORMAT (a value of another type, or one that no sampler takes). */
qsa_status sampling_from_keys(const gguf_file *file, qsa_sampler_options *out_options, bool *out_any);

#endif
