/* SPDX-License-Identifier: Apache-2.0 */
/* A look at the header of a GGUF before ggml's reader keeps any of it. */
#ifndef QSA_ENGINE_GGUF_SCAN_H
#define QSA_ENGINE_GGUF_SCAN_H

#include <qsa/status.h>
#include <stddef.h>

/* Walks keys and tensor infos and checks what ggml's reader takes for granted: that every length and count fits what is
 * left of the file and the limits of gguf_file.h (so that the memory it takes is bounded), that no string holds a NUL
 * byte (to a C program "a\0b" and "a\0c" are one name), that no dimension is zero. Keeps nothing. name stands for the
 * file in messages. */
qsa_status gguf_scan(const char *name, const void *data, size_t size_bytes);

#endif
