/* SPDX-License-Identifier: Apache-2.0 */
/* The header of one GGUF file: its keys and what it says about its tensors. Internal to engine/file.
 *
 * Read here and not by ggml: its reader is C++, and lack of memory in it ends the process. */
#ifndef QSA_ENGINE_GGUF_HEAD_H
#define QSA_ENGINE_GGUF_HEAD_H

#include "file/gguf_scan.h"

/* data [size_bytes] must outlive the head. On failure nothing is left to free. Errors: those of gguf_scan,
 * QSA_E_FORMAT (a key twice, a bad alignment), QSA_E_MEMORY. */
qsa_status gguf_head_read(const char *name, const void *data, size_t size_bytes, gguf_head *out_head);
void gguf_head_free(gguf_head *head); /* one of zeros is legal */

/* NULL: there is none. */
const gguf_key *gguf_head_find(const gguf_head *head, const char *name);

#endif
