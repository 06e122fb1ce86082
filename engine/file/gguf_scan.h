/* SPDX-License-Identifier: Apache-2.0 */
/* Validates the header of a GGUF before ggml's reader parses it. */
#ifndef QSA_ENGINE_GGUF_SCAN_H
#define QSA_ENGINE_GGUF_SCAN_H

#include <qsa/status.h>
#include <stddef.h>

/* Walks keys and tensor infos and checks what ggml's reader assumes: every length and count fits the rest of the file
 * and the limits of gguf_types.h, so memory is bounded; no string holds a NUL byte (in C "a\0b" and "a\0c" are the same
 * name); no dimension is zero. Allocates nothing. name is the file's name in messages. Errors: QSA_E_FORMAT,
 * QSA_E_UNSUPPORTED (version), QSA_E_LIMIT. */
qsa_status gguf_scan(const char *name, const void *data, size_t size_bytes);

#endif
