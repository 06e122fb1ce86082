/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tokenizer that a file describes with its tokenizer.ggml.* keys. */
#ifndef QSA_ENGINE_MODEL_TOKENIZER_KEYS_H
#define QSA_ENGINE_MODEL_TOKENIZER_KEYS_H

#include "file/gguf_file.h"
#include "text/tokenizer.h"

/* vocabulary: rows of the embedding; a file may have fewer tokens, not more. The file owns *out_pre. Errors:
 * QSA_E_UNSUPPORTED (not byte-level BPE, or another pre-tokenizer, by name), QSA_E_FORMAT, QSA_E_MEMORY. */
qsa_status tokenizer_from_keys(const gguf_file *file, uint32_t vocabulary, tokenizer **out_tokenizer,
                               const char **out_pre);

#endif
